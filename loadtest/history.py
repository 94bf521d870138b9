"""One long stream: what it costs to write, to keep, to append to and to replay."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from loadtest.content import LINE, MIB
from loadtest.filling import Filling
from loadtest.generator import Connection, append_request, create_streams, fresh_names
from loadtest.measurement import Outcome, Run
from loadtest.one_by_one import APPENDS, WARM_UP, p50_ms, p50_ms_in_turns
from loadtest.replay import replay
from loadtest.watch import FRESH_SECS, PERIOD_SECS, Watch

SHORT_BYTES = 1 * MIB
SETTLED_BYTES = 6 * MIB
SETTLING_SECS = 60.0
READERS = 100


async def history(run: Run) -> Outcome:
    """Appends are timed when the stream is short and when it is long.

    The second time in turns with those to a new short stream: that tells what the length costs
    from what has changed in the machine meanwhile.
    """
    stream = await LongStream.create(run)
    await stream.filling.up_to(SHORT_BYTES)
    early = await stream.append_p50_ms()
    writing = await stream.write(run.size * MIB)
    lag = await stream.settle()
    late, beside = await stream.append_p50_ms_beside_a_short_one()
    replaying = await stream.replayed_by(1)
    figures = {
        **stream.figures(),
        "write_mb": writing.mb_per_sec,
        "replay_mb": replaying.mb_per_sec,
        "early_ms": early,
        "late_ms": late,
        "late_ratio": late / early,
        "beside_ms": beside,
        "beside_ratio": late / beside,
        **({} if lag is None else {"lag_secs": lag}),
    }
    return Outcome(figures, generator_busy=max(writing.busy, replaying.busy))


async def crowded_history(run: Run) -> Outcome:
    """Everyone starts at once; watched only while they read."""
    stream = await LongStream.create(run)
    await stream.filling.up_to(run.size * MIB)
    await stream.settle()
    replaying = await stream.replayed_by(READERS)
    figures = {**stream.figures(), "replay_mb": replaying.mb_per_sec}
    return Outcome(figures, generator_busy=replaying.busy)


@dataclass(slots=True)
class Transfer:
    """A megabyte is 10⁶ bytes."""

    moved: int = 0
    secs: float = 0.0
    busy: float = 0.0

    @property
    def mb_per_sec(self) -> float:
        return self.moved / self.secs / 1e6

    @contextmanager
    def timed(self) -> Iterator[None]:
        began, own_cpu = time.perf_counter(), time.process_time()
        yield
        self.secs = time.perf_counter() - began
        self.busy = (time.process_time() - own_cpu) / self.secs


class LongStream:
    def __init__(self, run: Run, name: str, watch: Watch) -> None:
        self._target = run.target
        self._name = name
        self._watch = watch
        self._mib = run.size
        self._append = append_request(run.target, name, LINE)
        self.filling = Filling(run.target, name)

    @classmethod
    async def create(cls, run: Run) -> "LongStream":
        watch = await Watch.begin(run)
        [name] = fresh_names(1)
        await create_streams(run.target, [name])
        return cls(run, name, watch)

    async def append_p50_ms(self) -> float:
        """The first ones do not count."""
        connection = await self._target.connect(Connection)
        await p50_ms(connection, [self._append] * WARM_UP)
        self.filling.held += (WARM_UP + APPENDS) * len(LINE)
        return await p50_ms(connection, [self._append] * APPENDS)

    async def append_p50_ms_beside_a_short_one(self) -> tuple[float, float]:
        [name] = fresh_names(1)
        await create_streams(self._target, [name])
        await Filling(self._target, name).up_to(SHORT_BYTES)
        pair = (self._append, append_request(self._target, name, LINE))
        connection = await self._target.connect(Connection)
        await p50_ms_in_turns(connection, [pair] * WARM_UP)
        self.filling.held += (WARM_UP + APPENDS) * len(LINE)
        return await p50_ms_in_turns(connection, [pair] * APPENDS)

    async def write(self, size: int) -> Transfer:
        transfer, before = Transfer(), self.filling.held
        async with self._watch.watching():
            with transfer.timed():
                await self.filling.up_to(size)
        transfer.moved = self.filling.held - before
        return transfer

    async def settle(self) -> float | None:
        """Seconds until Redis has handed on nearly all it got; at most a minute is waited."""
        began = time.perf_counter()
        await asyncio.sleep(FRESH_SECS)
        while (used := await self._watch.used_over_start()) is not None:
            took = time.perf_counter() - began
            if used < SETTLED_BYTES or took > SETTLING_SECS:
                return took
            await asyncio.sleep(PERIOD_SECS)
        return None

    async def replayed_by(self, readers: int) -> Transfer:
        held = self.filling.held
        transfer = Transfer(moved=held * readers)
        replays = (replay(self._target, self._name, held) for _ in range(readers))
        async with self._watch.watching():
            with transfer.timed():
                await asyncio.gather(*replays)
        return transfer

    def figures(self) -> dict[str, float]:
        return {
            "mib": self._mib,
            "refused": self.filling.refused,
            **self._watch.figures(),
        }
