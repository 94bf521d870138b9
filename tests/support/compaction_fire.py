"""Streams are written, sealed, read and deleted while two compactions are at work, of which one is
killed; two go on then, and a third is killed again and again: nobody notices, and what was replaced
goes."""

import asyncio
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

from pyspark.sql import SparkSession
from support import trial
from support.client import JSON, Stream, eventually, unique_name
from support.ds_spark import COMMAND
from support.load import Load
from support.producers import patient_session
from support.quick_spark import QUICK
from support.repairs import keys_in
from support.server import RunningServer, wait_until

from spark.compact import Summary, compact
from spark.deployment import Deployment
from tiering.cold.keys import Piece
from tiering.hot.connection import Address
from tiering.hot.graveyard import Graveyard
from tiering.hot.pipe import Pipe
from tiering.hot.retention import RetentionDesk
from tiering.hot.sealing import SealingDesk, piece_of

CHUNK_BYTES = 16 * 1024
FIRE = {
    "DS_TIERING__SEAL_AGE_SECS": "0",
    "DS_TIERING__DELETE_GRACE_SECS": "2",
    "DS_TIERING__SWEEP_SECS": "1",
    "DS_CACHE__CHUNK_BYTES": str(CHUNK_BYTES),
}
START_SECS = 300
FIRE_SECS = 2 * trial.FAULT_SECS
PAUSE_SECS = 0.5
HOUR_MS = 3_600_000


class Fire:
    def __init__(self, server: RunningServer, spark: SparkSession) -> None:
        self.server = server
        self.spark = spark
        self.first_death = asyncio.Event()
        self.is_over = asyncio.Event()
        self.done: list[Summary] = []
        self.killed = 0
        self.deleted = 0

    async def burn(self, _: Load) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.compact_again_and_again())
            group.create_task(self.compact_too())
            group.create_task(self.come_and_go())
            group.create_task(self.kill_again_and_again())
            await asyncio.sleep(FIRE_SECS)
            await self.first_death.wait()
            self.is_over.set()

    async def compact_again_and_again(self) -> None:
        while not self.is_over.is_set():
            self.done.append(await self.compact())
            await asyncio.sleep(PAUSE_SECS)

    async def compact_too(self) -> None:
        """Not sooner: it would leave the one that is to be killed nothing to do."""
        await self.first_death.wait()
        await self.compact_again_and_again()

    async def compact(self) -> Summary:
        deployment = Deployment.parse({"data_dir": str(self.server.data_dir)}, {})
        return await compact(deployment, lambda: self.spark, batch_cost=4 * 2**20)

    async def kill_again_and_again(self) -> None:
        while not self.is_over.is_set():
            later_secs = random.uniform(0, 2) if self.killed else 0
            if await asyncio.to_thread(self.kill_one_that_has_begun, later_secs):
                self.killed += 1
                self.first_death.set()

    def kill_one_that_has_begun(self, later_secs: float) -> bool:
        """In the midst of its merging or its commits, and what it has started with it. False for
        one that had ended by then, or had not begun when the fire was over."""
        log = self.server.home / f"ds-spark-{unique_name()}.log"
        process = self.start(log)

        def has_begun() -> bool:
            return "begun" in log.read_text()

        def is_enough() -> bool:
            return has_begun() or process.poll() is not None or self.is_over.is_set()

        try:
            wait_until(is_enough, START_SECS, "a compaction that has begun")
            time.sleep(later_secs)
            assert process.poll() in (None, 0), log.read_text()
            return process.poll() is None and has_begun()
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait()

    def start(self, log: Path) -> "subprocess.Popen[bytes]":
        with log.open("wb") as errors:
            return subprocess.Popen(
                [COMMAND, "compact", "--master", "local[2]"],
                cwd=self.server.home,
                env=self.server.environment | QUICK,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    async def come_and_go(self) -> None:
        async with patient_session() as http:
            while not self.is_over.is_set():
                stream = Stream(http, f"{self.server.url}/v1/stream/{unique_name('brief')}", JSON)
                await self.live_and_die(stream)

    async def live_and_die(self, stream: Stream) -> None:
        assert (await stream.create()).status == 201
        for number in range(30):
            assert (await stream.append(b'[%d,"%b"]' % (number, b"x" * 700))).status == 204
        answers = await stream.read_to_the_tail()
        assert [one for answer in answers for one in answer.json()][::2] == list(range(30))
        assert (await stream.delete()).status == 204
        assert (await stream.read()).status == 404
        self.deleted += 1


async def nobody_notices(spark: SparkSession) -> None:
    chance = random.Random()
    async with trial.server(FIRE, chunk_bytes=CHUNK_BYTES) as server:
        fire = Fire(server, spark)
        await trial.endure(server, fire.burn, chance)
        await fire.compact()
        await eventually(lambda: superfluous(server), lambda keys: not keys, 60)
        checked = await asyncio.to_thread(server.command, "fsck")
        assert checked.returncode == 0, checked
    lost = sum((Counter(one.lost) for one in fire.done), Counter())
    replaced = sum(one.requests_saved for one in fire.done)
    print(f"{len(fire.done)} runs saved {replaced} requests, lost {lost}")
    print(f"{fire.killed} killed, {fire.deleted} streams deleted")
    assert [one.damaged for one in fire.done if one.damaged] == []
    assert replaced > 0
    assert fire.deleted > 0


async def superfluous(server: RunningServer) -> set[str]:
    """Objects that no stream has, but for those that the killed one has left: these have hours."""
    pipe = Pipe(Address.parse(f"unix://{server.redis_socket}"), timeout_secs=30)
    await pipe.open()
    try:
        known = [piece async for piece in _known(pipe)]
    finally:
        await pipe.close()
    needed = {key for piece in known for key in (piece.key, piece.index_key)}
    bodies = (key for key in keys_in(server) if key.startswith(("chunks/", "parts/", "index/")))
    return set(bodies) - needed


async def _known(pipe: Pipe) -> AsyncIterator[Piece]:
    desk, retention = SealingDesk(pipe), RetentionDesk(pipe)
    soon = await Graveyard(pipe).now_ms() + HOUR_MS
    async for name in desk.names():
        for piece in await desk.all_pieces(name):
            yield piece
        for member, until_ms in (await retention.shed(name)).items():
            if until_ms > soon:
                yield piece_of(name, member)
