"""Proof that what is stored is what was written, of all streams or of one."""

import asyncio
from collections.abc import Callable

from tiering.cold import inventory
from tiering.cold.inventory import Holdings
from tiering.cold.keys import segment
from tiering.errors import Corrupt, Refused
from tiering.examination import Examiner, Findings, Problem
from tiering.exposure import Exposure
from tiering.hot.buckets import BucketDesk
from tiering.hot.graveyard import Graveyard
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import SealingDesk
from tiering.objects.store import ObjectStore

_AT_ONCE = 4
_MOST_LOOKS = 5

Progress = Callable[[int, int], None]


class Report(Findings):
    streams: int = 0
    objects: int = 0

    def add(self, findings: Findings, holdings: Holdings, is_stream: bool) -> None:
        self.streams += is_stream
        self.objects += holdings.count
        self.leftovers += findings.leftovers
        self.checked_bytes += findings.checked_bytes
        self.problems += findings.problems


class Fsck:
    """Can run beside a server: what changes meanwhile is looked at again, never reported."""

    def __init__(self, pipe: Pipe, store: ObjectStore, *, is_read_by_edges: bool = False) -> None:
        self._desk = SealingDesk(pipe)
        self._store = store
        exposure = Exposure(pipe, store) if is_read_by_edges else None
        self._examiner = Examiner(self._desk, Graveyard(pipe), BucketDesk(pipe), store, exposure)
        self._report = Report()

    async def run(
        self, only: str | None = None, progress: Progress = lambda done, all: None
    ) -> Report:
        found = await inventory.take(self._store, segment(only) if only else "")
        names = {only} if only else {name async for name in self._desk.names()}
        todo = sorted(names | found.keys())
        slots = asyncio.Semaphore(_AT_ONCE)
        done = 0

        async def check(name: str) -> None:
            nonlocal done
            async with slots:
                await self._check(name, found.get(name, Holdings(name)))
            done += 1
            progress(done, len(todo))

        async with asyncio.TaskGroup() as group:
            for name in todo:
                group.create_task(check(name))
        self._report.problems.sort()
        if only and not (self._report.streams or self._report.objects):
            raise Refused(f"there is no stream {only!r}, and nothing is stored of one")
        return self._report

    async def _check(self, name: str, holdings: Holdings) -> None:
        """A stream that never stands still has the problems that two looks have in common."""
        seen: list[Problem] = []
        for _ in range(_MOST_LOOKS):
            try:
                standing = await self._standing(name)
                survey = await self._desk.survey(name)
                findings = await self._examiner.look(name, survey, holdings)
            except Corrupt as error:
                damage = Problem(name, "damaged stream", "", str(error))
                self._report.add(Findings(problems=[damage]), holdings, is_stream=True)
                return
            if not findings.problems or await self._standing(name) == standing:
                break
            problems, findings.problems = findings.problems, common(findings.problems, seen)
            seen, holdings = problems, await self._fresh(name)
        self._report.add(findings, holdings, survey is not None)

    async def _standing(self, name: str) -> tuple[object, ...] | None:
        """Another answer means that the stream has moved, or its pieces have been replaced."""
        survey = await self._desk.survey(name)
        if survey is None:
            return None
        return survey.position, tuple(await self._desk.all_pieces(name))

    async def _fresh(self, name: str) -> Holdings:
        return (await inventory.take(self._store, segment(name))).get(name, Holdings(name))


def common(these: list[Problem], those: list[Problem]) -> list[Problem]:
    return [problem for problem in these if problem in those]
