"""Clients bootstrap and follow a stream that is written, sealed, compacted, and gets snapshots of
Spark again and again; one run is killed in the midst of its publishing. Nobody notices."""

import asyncio
import json
import subprocess
from collections import Counter
from contextlib import suppress
from functools import partial

import aiohttp
from pyspark.sql import SparkSession
from support import trial
from support.client import JSON, Stream, eventually, unique_name
from support.crowd import FIRE, Scene, State, apply, play
from support.ds_spark import COMMAND
from support.holding_proxy import HoldingProxy
from support.producers import patient_session
from support.quick_spark import QUICK
from support.repairs import keys_in
from support.server import RunningServer
from support.snapshots import rule
from support.steady_writer import LANES

from spark.compact import compact
from spark.deployment import Deployment, bucket_of
from spark.due import Wanted
from spark.rules import Rule
from spark.snapshot import snapshot
from spark.snapshot_summary import Line, Summary

FIRE_SECS = 60
START_SECS = 600
CLIENTS = 16
CHUNK_BYTES = 4096
SWEEPING = {"DS_TIERING__SWEEP_SECS": "1", "DS_TIERING__DELETE_GRACE_SECS": "10"}
BY_NUMBER = rule("last-by-key", key="/n")
BY_ID = rule("last-by-key", key="/id")
HELD_AFTER = 3000
MESSAGES = 300


def count(body: bytes) -> int:
    """Each message has a key of its own: the snapshot is all of them, in their order."""
    found = json.loads(body) if body else []
    assert found == [{"n": n} for n in range(len(found))]
    return len(found)


def fold(body: bytes) -> State:
    """The same of what the crowd reads."""
    state = [0] * LANES
    for message in json.loads(body):
        apply(state, message)
    return state


class Fire:
    def __init__(self, server: RunningServer, spark: SparkSession) -> None:
        self.server = server
        self.spark = spark
        self.is_over = asyncio.Event()
        self.done: list[Summary] = []
        self.requests_saved = 0

    def snapshot(
        self, bucket: str, stream: str, rule: Rule = BY_NUMBER, *, is_dry_run: bool = False
    ) -> Summary:
        where = bucket_of({"data_dir": str(self.server.data_dir)}, {})
        wanted, url = Wanted([rule], bucket, stream), self.server.url
        return snapshot(where, url, wanted, lambda: self.spark, is_dry_run=is_dry_run)

    async def publish(self, scene: Scene) -> None:
        bucket = bucket_of_url(scene.stream)
        while not scene.is_over.is_set():
            summary = await asyncio.to_thread(self.snapshot, bucket, "stream", BY_ID)
            self.done.append(summary)
            scene.snapshots += summary.published
            await asyncio.sleep(0.2)

    async def burn(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self.compact_again_and_again())
            killed = group.create_task(self.kill_one_that_publishes())
            await asyncio.sleep(FIRE_SECS)
            await killed
            self.is_over.set()

    async def compact_again_and_again(self) -> None:
        deployment = Deployment.parse({"data_dir": str(self.server.data_dir)}, {})
        while not self.is_over.is_set():
            summary = await compact(deployment, lambda: self.spark)
            assert summary.damaged == []
            self.requests_saved += summary.requests_saved
            await asyncio.sleep(1)

    async def kill_one_that_publishes(self) -> None:
        async with patient_session() as http:
            stream = await self.with_a_snapshot(http)
            before = await in_force(stream)
            await self.append(stream, MESSAGES)
            await self.kill_in_its_midst(stream)
            assert await in_force(stream) == before
            bucket = bucket_of_url(stream)
            await eventually(lambda: self.attempts(bucket), lambda keys: len(keys) == 1, 60)
            assert await in_force(stream) == before
            assert (await asyncio.to_thread(self.snapshot, bucket, "still")).published == 1
            assert count((await in_force(stream))[1]) == 2 * MESSAGES

    async def with_a_snapshot(self, http: aiohttp.ClientSession) -> Stream:
        bucket = Stream(http, f"{self.server.url}/ds/{unique_name('quiet')}")
        assert (await bucket.ask("PUT")).status == 201
        stream = Stream(http, f"{bucket.url}/still", JSON)
        assert (await stream.create()).status == 201
        await self.append(stream, 0)
        assert (await asyncio.to_thread(self.snapshot, bucket_of_url(stream), "still")).published
        return stream

    async def append(self, stream: Stream, start: int) -> None:
        """Returns when it is sealed."""
        numbers = range(start, start + MESSAGES)
        body = b"[%b]" % b",".join(b'{"n":%d}' % number for number in numbers)
        end = (await stream.append(body)).next_offset

        async def due() -> list[Line]:
            look = partial(self.snapshot, is_dry_run=True)
            return (await asyncio.to_thread(look, bucket_of_url(stream), "still")).lines

        await eventually(due, lambda lines: [line.offset for line in lines] == [end], 60)

    async def attempts(self, bucket: str) -> list[str]:
        return [key for key in keys_in(self.server, bucket) if key.startswith("snapshots/")]

    async def kill_in_its_midst(self, stream: Stream) -> None:
        async with HoldingProxy(self.server.url, b"PUT", HELD_AFTER) as proxy:
            process = await self.start(stream, proxy.url)
            try:
                waiting = [asyncio.create_task(one) for one in (proxy.held.wait(), process.wait())]
                await asyncio.wait(waiting, timeout=START_SECS, return_when=asyncio.FIRST_COMPLETED)
                assert proxy.held.is_set(), "it did not come to its publishing"
                assert process.returncode is None
            finally:
                with suppress(ProcessLookupError):
                    process.kill()
                await asyncio.gather(process.wait(), *waiting[1:])

    async def start(self, stream: Stream, url: str) -> asyncio.subprocess.Process:
        asked = ["--fold", "last-by-key", "--key", "/n", "--bucket", bucket_of_url(stream)]
        return await asyncio.create_subprocess_exec(
            *(COMMAND, "snapshot", *asked, "--server", url, "--master", "local[2]"),
            cwd=self.server.home,
            env=self.server.environment | QUICK,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def bucket_of_url(stream: Stream) -> str:
    return stream.url.split("/")[-2]


async def in_force(stream: Stream) -> tuple[str, bytes]:
    """The offset of the snapshot, and what it says."""
    offset = (await stream.ask("HEAD"))["Stream-Snapshot-Offset"]
    assert offset is not None
    answer = await Stream(stream.http, f"{stream.url}/snapshot/{offset}").ask("GET")
    assert answer.status == 200, answer
    return offset, answer.body


async def nobody_notices(spark: SparkSession) -> None:
    async with trial.server(FIRE | SWEEPING, chunk_bytes=CHUNK_BYTES) as server:
        fire = Fire(server, spark)
        await play(server, fire.publish, fire.burn, fold=fold, may_break=True, clients=CLIENTS)
        checked = await asyncio.to_thread(server.command, "fsck")
        assert checked.returncode == 0, checked
    outcomes = Counter(line.outcome for one in fire.done for line in one.lines)
    print(f"{len(fire.done)} runs: {dict(outcomes)}; {fire.requests_saved} requests saved")
    assert outcomes.keys() <= {"published", "moved"}
    assert fire.requests_saved > 0
