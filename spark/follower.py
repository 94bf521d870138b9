"""Looks at a bucket again and again, and says how far its streams have come since."""

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from spark import advance
from spark.advance import Begun
from spark.checkpoint import Mark, Marks, Range, ranges
from spark.follow_options import FollowOptions
from spark.layout import Share
from spark.planning import Source, between
from spark.turns import Turns
from tiering.cold.ahead import Ahead, Habits, Stretch
from tiering.cold.catalog import SealedStream, deployment_of, look_again
from tiering.cold.known_manifests import KnownManifests, Memory
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.objects.store import ObjectStore
from tiering.offset import NOW, START, Offset, ReadFrom

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Look:
    """The bucket as it is now."""

    manifests: KnownManifests
    known: dict[str, Manifest]
    ahead: Ahead

    async def streams(self, wanted: list[Stretch]) -> dict[str, SealedStream]:
        found = await self.ahead.streams(wanted, self.known, self.manifests)
        return {one.name: one for one in found}

    async def piece_ends(self, begun: Begun, until: int) -> list[int]:
        found = await self.streams([Stretch(begun.manifest, begun.position, until)])
        return [one.end for one in found[begun.name].slices]


@dataclass(slots=True)
class Follower:
    """Lives as long as the query. What it remembers saves requests, and tells whose turn it is;
    without it the next offset is another one, but a batch stays what it is."""

    options: FollowOptions
    _memory: Memory = field(default_factory=Memory)
    _habits: Habits = field(default_factory=Habits)
    _seen: Mapping[str, Offset] | None = None
    _target: Mapping[str, Offset] | None = None
    _turns: Turns = field(default_factory=Turns)
    _is_checked: bool = False

    @property
    def seen(self) -> Mapping[str, Offset] | None:
        """How far streams had come at the last look; None before that."""
        return self._seen

    async def aim(self, store: ObjectStore) -> None:
        """From now on only what is sealed by now is there."""
        self._target = await self._looking(store, self._ends_of_all)

    async def latest(
        self, store: ObjectStore, start: Marks, first: ReadFrom, most_bytes: int | None
    ) -> tuple[Marks, ReadFrom]:
        """How far the next batch goes; and where streams begin that are not known by then."""

        async def look(now: Look) -> Marks:
            return await self._latest(now, start, first, most_bytes)

        marks = await self._looking(store, look)
        is_awaited = isinstance(first, Offset) and not marks
        return marks, first if is_awaited else START

    async def between(self, store: ObjectStore, start: Marks, end: Marks) -> list[Share]:
        """What a batch has, whatever has happened since it was planned first."""

        async def look(now: Look) -> list[Share]:
            return await self._between(now, list(ranges(start, end)))

        return await self._looking(store, look)

    async def _looking(self, store: ObjectStore, look: Callable[[Look], Awaitable[T]]) -> T:
        selection = self.options.shared.selection
        if not self._is_checked:
            await deployment_of(store)
            self._is_checked = True

        async def once() -> T:
            manifests = KnownManifests(store, self._memory)
            known = await manifests.newest(selection.folder, selection.wants)
            ahead = Ahead(store, selection.folder, self._habits)
            return await look(Look(manifests, known, ahead))

        return await look_again(once)

    async def _ends_of_all(self, now: Look) -> dict[str, Offset]:
        alive = [one for one in now.known.values() if not one.is_over(_now_ms())]
        ends = await self._ends(now, [Begun(one, one.sealed) for one in alive])
        return {one.name: Offset(one.log, ends[one.name]) for one in alive}

    async def _latest(
        self, now: Look, start: Marks, first: ReadFrom, most_bytes: int | None
    ) -> Marks:
        marks, begun = self._sorted(now, start, first)
        ends = await self._ends(now, begun)
        if first is NOW:
            begun = [_at(one, ends[one.name]) if one.mark is None else one for one in begun]
        news = sum(ends[one.name] - one.position for one in begun)
        if most_bytes is not None and news > most_bytes:
            ends = await self._turns.limited(begun, ends, most_bytes, now.piece_ends)
        return marks | {one.name: one.marked(ends[one.name]) for one in begun}

    def _sorted(
        self, now: Look, start: Marks, first: ReadFrom
    ) -> tuple[dict[str, Mark], list[Begun]]:
        """Those that wait where they are, and those that may go on. A stream that is over keeps
        its mark as long as it has a manifest: whoever wrote that last may not have known."""
        waiting: dict[str, Mark] = {}
        begun: list[Begun] = []
        for name, manifest in now.known.items():
            mark = start.get(name)
            if self._must_wait(manifest, mark):
                if mark is not None:
                    waiting[name] = mark
            elif mark is None:
                begun.append(advance.begin(manifest, first))
            else:
                begun.append(
                    advance.go_on(manifest, mark, fails_on_loss=self.options.fails_on_loss)
                )
        return waiting, begun

    def _must_wait(self, manifest: Manifest, mark: Mark | None) -> bool:
        """Logs grow with time, so an older one is what a removal has left for a moment."""
        is_left_over = mark is not None and manifest.log < mark.end.log
        return is_left_over or manifest.is_over(_now_ms()) or not self._is_aimed_at(manifest)

    def _is_aimed_at(self, manifest: Manifest) -> bool:
        if self._target is None:
            return True
        target = self._target.get(manifest.name)
        return target is not None and not advance.is_stranger(target, manifest)

    async def _ends(self, now: Look, begun: Sequence[Begun]) -> dict[str, int]:
        """What a manifest calls sealed is there; a busy stream has more than its manifest knows."""
        ends = {one.name: max(one.position, one.manifest.sealed) for one in begun}
        growing = [one.manifest for one in begun if not one.manifest.is_complete]
        found = await now.streams([Stretch(one, ends[one.name]) for one in growing])
        ends |= {name: one.end for name, one in found.items()}
        self._seen = {one.name: Offset(one.manifest.log, ends[one.name]) for one in begun}
        return {one.name: max(one.position, self._aimed(one.name, ends)) for one in begun}

    def _aimed(self, name: str, ends: Mapping[str, int]) -> int:
        return ends[name] if self._target is None else min(ends[name], self._target[name].position)

    async def _between(self, now: Look, wanted: Sequence[Range]) -> list[Share]:
        fails_on_loss = self.options.fails_on_loss
        left: list[tuple[Range, Stretch]] = []
        for one in wanted:
            manifest = now.known.get(one.name)
            first, last = advance.what_is_left(one, manifest, fails_on_loss=fails_on_loss)
            if manifest is not None and first < last:
                left.append((one, Stretch(manifest, first, last)))
        found = await now.streams([stretch for _, stretch in left])
        return [_share(one, stretch, found[one.name]) for one, stretch in left]


def _share(wanted: Range, stretch: Stretch, found: SealedStream) -> Share:
    assert stretch.until is not None
    if found.end < stretch.until:
        raise Corrupt(f"Nothing covers {found.end} to {stretch.until} of {found.name}.")
    source = Source(wanted.name, wanted.end.log, stretch.manifest.content_type)
    slices = between(found.slices, stretch.start, stretch.until)
    return Share(source, stretch.manifest.grid, tuple(slices))


def _at(begun: Begun, position: int) -> Begun:
    return replace(begun, position=position)


def _now_ms() -> int:
    return int(time.time() * 1000)
