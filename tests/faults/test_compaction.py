"""Compaction: fewer objects, the same history, whatever else happens to the stream meanwhile."""

import asyncio
import contextlib
import json
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import pytest
from support.client import unique_name
from support.interrupted import Interrupted
from support.repairs import NEVER, fsck, keys_in, lose_and_recover, objects_of, seal_all, sweep
from support.server import RunningServer, wait_until
from support.shelf import Shelf
from support.wire import Wire

from tiering.cold.keys import Piece
from tiering.cold.merge import Task, merge
from tiering.compaction import Compaction
from tiering.examination import Problem
from tiering.fsck import Fsck
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import SealingDesk
from tiering.objects.directory import DirectoryStore
from tiering.objects.store import ObjectInfo, ObjectMissing

CHUNK = 2000
PROMPT = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=CHUNK, env=PROMPT) as running:
        yield running


@contextlib.asynccontextmanager
async def tiers_of(server: RunningServer) -> AsyncIterator[tuple[Compaction, DirectoryStore]]:
    pipe = Pipe(Address.parse(f"unix://{server.redis_socket}"), timeout_secs=30)
    await pipe.open()
    try:
        async with DirectoryStore(objects_of(server)) as store:
            yield Compaction(pipe), store
    finally:
        await pipe.close()


async def compact(server: RunningServer, name: str) -> list[str]:
    async with tiers_of(server) as (compaction, store):
        outcomes: list[str] = []
        for task in await compaction.plan(name):
            if await compaction.begin(task) == "ok":
                await merge(store, task)
                outcomes.append(await compaction.commit(task))
        return outcomes


def in_crumbs(server: RunningServer, wire: Wire, name: str, content_type: str) -> None:
    """Some chunks, each in several parts, and the beginning of another."""
    rng = random.Random(3)
    wire.ask("PUT", name, content_type=content_type)
    for number in range(16):
        size = rng.randrange(1, 400)
        if content_type == "application/json":
            data = json.dumps([number, "x" * size, {"y": size}]).encode()
        else:
            data = os.urandom(size)
        assert wire.ask("POST", name, data, content_type=content_type).status == 204
        seal_all(server)


def parts_in(server: RunningServer, name: str) -> list[str]:
    return [key for key in keys_in(server, f"/{name}/") if key.startswith("parts/")]


def everything_of(wire: Wire, name: str, content_type: str) -> bytes:
    if content_type == "application/json":
        return wire.read_all_json(name)
    return wire.read_all(name)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("content_type", ["application/json", "application/octet-stream"])
def test_parts_become_chunks_and_crumbs_fewer_parts(
    server: RunningServer, content_type: str
) -> None:
    name = unique_name()
    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, content_type)
        before = everything_of(wire, name, content_type)
        offset = wire.ask("HEAD", name)["Stream-Next-Offset"]
        assert len(parts_in(server, name)) >= 10
        outcomes = asyncio.run(compact(server, name))
        assert set(outcomes) == {"ok"}
        wait_until(lambda: len(parts_in(server, name)) <= 1, what="the janitor")
        assert everything_of(wire, name, content_type) == before
        assert wire.ask("HEAD", name)["Stream-Next-Offset"] == offset
        assert fsck(server)["problems"] == []
        assert asyncio.run(compact(server, name)) == []
        lose_and_recover(server, wire)
        assert everything_of(wire, name, content_type) == before


@pytest.mark.timeout(120)
def test_of_two_at_once_one_changes_nothing(server: RunningServer) -> None:
    name = unique_name()

    async def both() -> tuple[list[str], list[str]]:
        async with tiers_of(server) as (one, store), tiers_of(server) as (other, _):
            tasks = await one.plan(name)
            assert await other.plan(name) == tasks
            for task in tasks:
                assert await one.begin(task) == await other.begin(task) == "ok"
                await merge(store, task)
            firsts = [await one.commit(task) for task in tasks]
            return firsts, [await other.commit(task) for task in tasks]

    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "text/plain")
        before = wire.read_all(name)
        firsts, seconds = asyncio.run(both())
        assert set(firsts) == {"ok"}
        assert set(seconds) == {"moved"}
        wait_until(lambda: len(parts_in(server, name)) <= 1, what="the janitor")
        assert wire.read_all(name) == before
        assert fsck(server)["problems"] == []


@pytest.mark.timeout(120)
@pytest.mark.parametrize("is_merged", [False, True])
def test_one_that_dies_before_its_commit_leaves_nothing_wrong_and_the_next_goes_on(
    server: RunningServer, is_merged: bool
) -> None:
    name = unique_name()

    async def die() -> list[Task]:
        async with tiers_of(server) as (compaction, store):
            tasks = await compaction.plan(name)
            for task in tasks:
                assert await compaction.begin(task) == "ok"
                if is_merged:
                    await merge(store, task)
            return tasks

    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "text/plain")
        before = wire.read_all(name)
        assert asyncio.run(die())
        assert wire.read_all(name) == before
        assert fsck(server)["problems"] == []
        outcomes = asyncio.run(compact(server, name))
        assert set(outcomes) == {"ok"}
        wait_until(lambda: len(parts_in(server, name)) <= 1, what="the janitor")
        assert wire.read_all(name) == before
        assert fsck(server)["problems"] == []


@pytest.mark.timeout(120)
def test_a_stream_that_is_deleted_meanwhile_stays_deleted(server: RunningServer) -> None:
    name = unique_name()

    async def compact_too_late(wire: Wire) -> set[str]:
        async with tiers_of(server) as (compaction, store):
            tasks = await compaction.plan(name)
            for task in tasks:
                assert await compaction.begin(task) == "ok"
                await merge(store, task)
            assert wire.ask("DELETE", name).status == 204
            return {await compaction.commit(task) for task in tasks}

    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "text/plain")
        assert asyncio.run(compact_too_late(wire)) == {"missing"}
        wait_until(lambda: not keys_in(server, name), what="the janitor")
        assert wire.ask("GET", name).status == 404
        assert fsck(server)["problems"] == []


@pytest.fixture
def patient_server() -> Iterator[RunningServer]:
    """Leaves everything alone for a day; the commands do not."""
    grace = "DS_TIERING__DELETE_GRACE_SECS"
    with RunningServer(chunk_bytes=CHUNK, env=NEVER | {grace: "86400"}) as running:
        running.settings[grace] = "0"
        yield running


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    ("order", "chunks", "parts"),
    [
        ("begin merge publish commit trim", [2000, 4000], [6000]),
        ("begin merge publish trim commit", [4000], [2500, 3000, 3500, 6000]),
        ("begin publish trim merge commit", [4000], [2500, 3000, 3500, 6000]),
    ],
)
def test_a_snapshot_that_is_published_meanwhile_stays_in_force(
    patient_server: RunningServer, order: str, chunks: list[int], parts: list[int]
) -> None:
    """It ends within the second chunk: of what lies before it, nothing comes back. `chunks` and
    `parts` are where those begin that are left in the end."""
    server = patient_server
    with Wire(server.url, root="/ds/") as wire:
        shelf = Shelf(wire, f"{unique_name()}/it").create()
        for _ in range(14):
            shelf.write(5)
            seal_all(server)
        race = Race(server, shelf)
        for step in order.split():
            asyncio.run(race.take(step))
        shelf.assert_whole(snapshot=25)
        race.expire_intentions()
        sweep(server)
        assert race.starts("chunks") == race.starts("index/chunks") == chunks
        assert race.starts("parts") == race.starts("index/parts") == parts
        assert fsck(server)["problems"] == []
        shelf.write(3).assert_whole(snapshot=25)
        seal_all(server)
        lose_and_recover(server, wire)
        shelf.assert_whole(snapshot=25)


@dataclass
class Race:
    """A compaction of three chunks and a part, step by step, and a snapshot after message 25."""

    server: RunningServer
    shelf: Shelf
    tasks: list[Task] = field(default_factory=list)
    merged: list[Task] = field(default_factory=list)

    async def take(self, step: str) -> None:
        async with tiers_of(self.server) as (compaction, store):
            match step:
                case "begin":
                    self.tasks = await compaction.plan(self.shelf.inner_name)
                    assert len(self.tasks) == 4
                    assert {await compaction.begin(task) for task in self.tasks} == {"ok"}
                case "merge":
                    await self.merge(compaction, store)
                case "publish":
                    await asyncio.to_thread(self.shelf.publish, 25)
                case "trim":
                    await asyncio.to_thread(seal_all, self.server)
                    await asyncio.to_thread(sweep, self.server)
                case "commit":
                    await self.commit(compaction)

    async def merge(self, compaction: Compaction, store: DirectoryStore) -> None:
        """What cannot be read is not the history any more."""
        for task in self.tasks:
            try:
                await merge(store, task)
                self.merged.append(task)
            except ObjectMissing:
                assert not await compaction.is_current(task)

    async def commit(self, compaction: Compaction) -> None:
        """All of it, or none: a task that has lost some of its pieces changes nothing."""
        for task in self.merged:
            is_current = await compaction.is_current(task)
            assert await compaction.commit(task) == ("ok" if is_current else "moved")
            assert is_current or self.starts("parts")[0] == 2500

    def expire_intentions(self) -> None:
        """As if the hours had passed that a compaction may take."""
        with self.server.redis() as redis:
            key = f"ds:{{{self.shelf.inner_name}}}:shed"
            for member in redis.zrange(key, 0, -1):
                redis.zadd(key, {member: 0})

    def starts(self, kind: str) -> list[int]:
        found = [key for key in keys_in(self.server) if key.startswith(f"{kind}/")]
        return [int(key.rsplit("_", 1)[1][:16]) for key in found if self.shelf.segment in key]


@pytest.mark.timeout(120)
def test_forks_read_what_was_compacted(server: RunningServer) -> None:
    name = unique_name()
    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "application/json")
        before = wire.read_all_json(name)
        fork = f"{name}-fork"
        assert wire.ask("PUT", fork, stream_forked_from=f"/v1/stream/{name}").status == 201
        assert asyncio.run(compact(server, name))
        wait_until(lambda: len(parts_in(server, name)) <= 1, what="the janitor")
        assert wire.read_all_json(fork) == before
        assert fsck(server)["problems"] == []


@pytest.mark.timeout(120)
def test_whoever_looks_up_pieces_sees_those_of_before_or_those_of_after(
    server: RunningServer,
) -> None:
    """Some of each would leave a hole."""
    name = unique_name()

    async def look() -> list[Piece]:
        pipe = Interrupted(Address.parse(f"unix://{server.redis_socket}"), timeout_secs=30)
        await pipe.open()
        try:
            end = (await SealingDesk(pipe).all_pieces(name))[-1].end
            pipe.act = lambda: compact(server, name)
            return await SealingDesk(pipe).pieces(name, 1, end)
        finally:
            await pipe.close()

    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "text/plain")
        pieces = asyncio.run(look())
    assert len(pieces) > 10
    assert all(one.end == other.start for one, other in pairwise(pieces))


class Compacting(DirectoryStore):
    """Its stream is compacted, and the old pieces removed, while it is first read."""

    act: Callable[[], Awaitable[object]] | None = None

    async def head(self, key: str) -> ObjectInfo | None:
        act, self.act = self.act, None
        if act is not None:
            await act()
        return await super().head(key)


@pytest.mark.timeout(120)
def test_fsck_does_not_take_a_compaction_for_damage(server: RunningServer) -> None:
    name = unique_name()

    async def compact_and_clean() -> None:
        assert await compact(server, name)
        await asyncio.to_thread(
            wait_until, lambda: len(parts_in(server, name)) <= 1, what="the janitor"
        )

    async def check() -> list[Problem]:
        pipe = Pipe(Address.parse(f"unix://{server.redis_socket}"), timeout_secs=30)
        await pipe.open()
        try:
            async with Compacting(objects_of(server)) as store:
                store.act = compact_and_clean
                return (await Fsck(pipe, store).run(name)).problems
        finally:
            await pipe.close()

    with Wire(server.url) as wire:
        in_crumbs(server, wire, name, "text/plain")
        assert asyncio.run(check()) == []
