"""Where a follower of a stream goes on, by what its manifest says now. Nothing is read here."""

from dataclasses import dataclass

from spark.checkpoint import Mark, Range
from spark.planning import position_of
from tiering.cold.manifest import Manifest
from tiering.errors import Gone
from tiering.offset import NOW, Offset, ReadFrom

_HINT = "With failOnDataLoss=false the query goes on with what there is."


@dataclass(frozen=True, slots=True)
class Begun:
    """The next batch begins at `position`; `mark` is where the last one ended, None when what
    follows is not what followed then: the stream is new, was made anew, or has lost something."""

    manifest: Manifest
    position: int
    mark: Mark | None = None
    was_known: bool = False

    @property
    def name(self) -> str:
        return self.manifest.name

    def marked(self, end: int) -> Mark:
        """What the offset says when the batch ends there."""
        reached = Offset(self.manifest.log, end)
        if self.mark is not None:
            return self.mark if end <= self.position else Mark(reached)
        begin = Offset(self.manifest.log, self.position)
        return Mark(reached) if not self.position and not self.was_known else Mark(reached, begin)


def begin(manifest: Manifest, first: ReadFrom) -> Begun:
    """A stream that was not followed so far; `now` is not before what is known to be sealed."""
    if first is NOW:
        return Begun(manifest, manifest.sealed)
    return Begun(manifest, position_of(first, manifest))


def go_on(manifest: Manifest, mark: Mark, *, fails_on_loss: bool) -> Begun:
    """A stream that was read up to a mark. One that was made anew since begins at its beginning."""
    token = mark.end
    if is_stranger(token, manifest):
        return Begun(manifest, manifest.earliest, was_known=True)
    position = max(_reach(token, manifest), manifest.earliest)
    if position == token.position:
        return Begun(manifest, position, mark)
    resume = Offset(manifest.log, position)
    if fails_on_loss:
        raise Gone(f"{_loss(token, resume, manifest.name)} {_HINT}", resume)
    return Begun(manifest, position, was_known=True)


def what_is_left(
    wanted: Range, manifest: Manifest | None, *, fails_on_loss: bool
) -> tuple[int, int]:
    """The positions of a batch, which may have been planned before this."""
    name, begin, end = wanted.name, wanted.begin, wanted.end
    if manifest is None or manifest.deleted or is_stranger(end, manifest):
        first, last = 0, 0
    else:
        first, last = max(_reach(begin, manifest), manifest.earliest), _reach(end, manifest)
    if fails_on_loss and (first, last) != (begin.position, end.position):
        raise Gone(f"{name} has not all of {begin} to {end} any more. {_HINT}", end)
    return first, last


def _loss(token: Offset, resume: Offset, name: str) -> str:
    if resume.position < token.position:
        return f"{name} was read up to {token}, and has lost what it had beyond {resume}."
    return f"{name} was read up to {token} only, and retains nothing before {resume}."


def is_stranger(token: Offset, manifest: Manifest) -> bool:
    """Whether the stream knows nothing of it; of what it was forked from, no more than it has."""
    for one in manifest.ancestors:
        if one.log == token.log:
            return one.kind == "fork" and token.position > one.border
    return token.log != manifest.log


def _reach(token: Offset, manifest: Manifest) -> int:
    """How much of what the token counts is in the stream's history."""
    borders = (one.border for one in manifest.ancestors if one.log == token.log)
    return min(token.position, *borders, token.position)
