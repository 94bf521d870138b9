"""Fewer, larger objects for the same history. Whoever reads does not see the difference."""

from fnmatch import fnmatchcase

from tiering.cold.merge import Ground, Task, plan
from tiering.hot.compaction import CompactionDesk, Outcome
from tiering.hot.graveyard import Graveyard
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import SealingDesk

LONGEST_MS = 6 * 3600 * 1000


class Compaction:
    """Plans and commits; what lies between, `merge`, needs only object storage, and can be done
    anywhere. It can stop at any point: what was begun goes by itself, and the next one goes on."""

    def __init__(self, pipe: Pipe) -> None:
        self._desk = SealingDesk(pipe)
        self._compactor = CompactionDesk(pipe)
        self._graves = Graveyard(pipe)

    async def names(self, pattern: str = "*") -> list[str]:
        found = {name async for name in self._desk.names() if fnmatchcase(name, pattern)}
        return sorted(found)

    async def ground(self, name: str) -> Ground | None:
        """None for a stream that is gone, or is there for its forks alone."""
        survey = await self._desk.survey(name)
        if survey is None or survey.manifest.deleted or survey.has_expired:
            return None
        pieces = await self._desk.all_pieces(name)
        return Ground(survey.manifest, pieces, await self._compactor.cuts(name))

    async def plan(self, name: str) -> list[Task]:
        ground = await self.ground(name)
        return [] if ground is None else plan(ground)

    async def begin(self, task: Task) -> Outcome:
        """Only what was begun with "ok" may be merged."""
        until_ms = await self._graves.now_ms() + LONGEST_MS
        return await self._compactor.intend(task.new, until_ms)

    async def is_current(self, task: Task) -> bool:
        """Whether what is to be replaced is the history still: else it may be gone already."""
        return set(task.old) <= set(await self._desk.all_pieces(task.new.name))

    async def commit(self, task: Task) -> Outcome:
        """What was in its place goes after a time of grace."""
        outcome = await self._compactor.compact(task.new, task.old)
        await self._graves.remember(task.new.name, 0)
        return outcome
