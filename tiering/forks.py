"""Streams that share another's history. A loan, noted with the source, keeps it from being removed.

A loan is taken before its fork is made and given back after it is gone, so that whatever stops in
between leaves a loan too many, never one too few; the sweep gives it back.
"""

from dataclasses import dataclass

from tiering.errors import Conflict, Gone, Invalid, StreamError, Unavailable
from tiering.hot.sealing import SealingDesk, Survey
from tiering.hot.terms import Created, Hidden, Origin, Remains
from tiering.hot.tier import HotTier
from tiering.messages import Payload
from tiering.offset import NOW, ReadFrom
from tiering.reader import Reader
from tiering.stream import Configuration, ContentType, Lifetime, Stream, View, heritage, parent_of

SOURCE_DELETED = "The source of the fork was deleted."


class SourceMoved(Exception):
    """The source is not any more what it was a moment ago."""


@dataclass(frozen=True, slots=True)
class ForkPlace:
    """`offset` None: where the source ends now. `sub_offset` counts messages of a JSON stream,
    else bytes, from there on."""

    source: str
    offset: ReadFrom | None
    sub_offset: int


@dataclass(frozen=True, slots=True)
class Wishes:
    """What is not said is as it is with the source."""

    content_type: ContentType | None
    lifetime: Lifetime
    closed: bool

    def based_on(self, source: Stream) -> Configuration:
        wanted = self.content_type or source.content_type
        if wanted.media != source.content_type.media:
            raise Conflict(f"The source's content type is {source.content_type.text}.")
        lifetime = self.lifetime if self.lifetime.ends else source.lifetime
        return Configuration(wanted, lifetime, self.closed)


def loan(name: str, log: int) -> str:
    return f"{log}:{name}"


def borrower(text: str) -> tuple[str, int]:
    log, _, name = text.partition(":")
    return name, int(log)


class Forks:
    def __init__(self, tier: HotTier, reader: Reader, desk: SealingDesk) -> None:
        self._tier = tier
        self._reader = reader
        self._desk = desk

    async def find(self, place: ForkPlace) -> tuple[Stream, int]:
        """The source, and the position that the fork begins at."""
        try:
            view = await self._reader.look(place.source, place.offset or NOW, renew=False)
        except Hidden:
            raise Conflict(SOURCE_DELETED) from None
        except Gone as error:
            raise Invalid("The fork offset is none of the source.") from error
        return view.stream, await self._resolve(view, place.sub_offset)

    async def _resolve(self, view: View, sub_offset: int) -> int:
        if sub_offset == 0:
            return view.start
        ends = await self._reader.message_ends(view)
        if view.stream.content_type.is_json:
            if sub_offset > len(ends):
                raise Invalid("Stream-Fork-Sub-Offset lies beyond the next append.")
            return ends[sub_offset - 1]
        if not ends or view.start + sub_offset > ends[-1]:
            raise Invalid("Stream-Fork-Sub-Offset lies beyond the next append.")
        return view.start + sub_offset

    async def make(
        self,
        name: str,
        log: int,
        source: Stream,
        border: int,
        place: ForkPlace,
        wanted: Configuration,
        payload: Payload,
    ) -> Created:
        """The loan is made sure of once more at the end: a maker that was slow may have lost it."""
        origin = Origin(
            source.name,
            heritage(source.name, source.log, source.ancestors, border),
            border,
            source.grid,
            source.earliest,
            source.snapshot,
            was_asked_for=place.offset is not None,
        )
        await self._borrow(source, border, loan(name, log))
        try:
            created = await self._tier.create(name, wanted, payload, log, origin)
        except Unavailable:
            raise  # It may have been made.
        except StreamError:
            await self.give_back(source.name, [loan(name, log)])
            raise
        if not created.is_new:
            await self.give_back(source.name, [loan(name, log)])
        else:
            await self._make_sure(name, source, border, log)
        return created

    async def _borrow(self, source: Stream, border: int, loan: str) -> None:
        if not await self._tier.lend(source, border, loan):
            raise SourceMoved

    async def _make_sure(self, name: str, source: Stream, border: int, log: int) -> None:
        try:
            await self._borrow(source, border, loan(name, log))
        except SourceMoved:
            await self._tier.delete(name, log)
            raise

    async def give_back(self, source: str, loans: list[str]) -> list[Remains]:
        """Removal goes up the chain as long as nobody else reads through."""
        removed = []
        remains = await self._tier.release(source, loans)
        while remains is not None:
            removed.append(remains)
            remains = await self.release_parent(remains)
        return removed

    async def release_parent(self, remains: Remains) -> Remains | None:
        parent = parent_of(remains.ancestors)
        if parent is None:
            return None
        own = [one.log for one in remains.ancestors if not one.name]
        loans = [loan(remains.name, log) for log in (*own, remains.log)]
        return await self._tier.release(parent.name, loans)

    async def check(self, name: str) -> list[Remains]:
        """Gives back the loans of forks that never were made, or are gone."""
        stale = [text for text in await self._desk.loans(name) if await self._is_stale(text)]
        return await self.give_back(name, stale)

    async def renew(self, survey: Survey) -> None:
        """Makes sure that the source of a fork knows of it."""
        manifest = survey.manifest
        if manifest.parent is not None and manifest.border > 0:
            first = next(log for log, _ in manifest.own_logs())
            place, border = manifest.parent.name, manifest.parent.border
            await self._tier.renew_loan(place, border, loan(manifest.name, first))

    async def _is_stale(self, text: str) -> bool:
        fork, log = borrower(text)
        survey = await self._desk.survey(fork)
        return survey is None or log not in survey.logs
