"""The pieces that together hold a stream's sealed bytes, chosen from all there are.

Overlapping pieces agree: what lies between two positions of a stream never changes. So unlike the
recovery, which must give Redis pieces that meet exactly, a reader takes what reaches furthest and
leaves out what it has already.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from tiering.cold.keys import Piece
from tiering.cold.manifest import Manifest

Limits = Mapping[tuple[str, int], int | None]
"""Name and log of everything that a stream may be read from, and where it stops to be valid."""


@dataclass(frozen=True, slots=True)
class Slice:
    """The positions `[start, end)` of a piece: what a reader wants of it."""

    piece: Piece
    start: int
    end: int


def limits_of(manifest: Manifest, others: Mapping[str, Manifest]) -> Limits:
    """A fork reads through its source by name: the source may have changed its log since."""
    own = {(manifest.name, log): border for log, border in manifest.own_logs()}
    parent = manifest.parent
    if parent is None:
        return own
    source = others.get(parent.name)
    if source is None:
        above: Limits = {(one.name, one.log): one.border for one in manifest.ancestors if one.name}
    else:
        above = limits_of(source, others)
    border = parent.border
    clipped = {log: border if at is None else min(at, border) for log, at in above.items()}
    return clipped | own


def cover(pieces: Iterable[Piece], limits: Limits, start: int) -> list[Slice]:
    """Slices without a gap from `start` on, as few as lead as far as possible."""
    waiting = sorted(_valid(pieces, limits), key=lambda one: one.start)
    found: list[Slice] = []
    position, best, number = start, Slice(_NOTHING, 0, 0), 0
    while True:
        while number < len(waiting) and waiting[number].start <= position:
            best = max(best, waiting[number], key=_merit)
            number += 1
        if best.end <= position:
            return found
        found.append(Slice(best.piece, position, best.end))
        position = best.end


_NOTHING = Piece("part", "", 0, 0, 0)


def _valid(pieces: Iterable[Piece], limits: Limits) -> Iterator[Slice]:
    for piece in pieces:
        log = (piece.name, piece.log)
        if log in limits:
            limit = limits[log]
            yield Slice(piece, piece.start, piece.end if limit is None else min(piece.end, limit))


def _merit(one: Slice) -> tuple[int, bool]:
    """Of two that lead equally far a chunk is preferred: it is fetched with one request."""
    return one.end, one.piece.kind == "chunk"
