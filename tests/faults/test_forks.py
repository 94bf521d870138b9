"""Forks by the thousand, forks that are interrupted, forks that outlive their Redis."""

import asyncio
import os
import random
import signal
from collections.abc import Awaitable, Iterator
from contextlib import suppress
from pathlib import Path

import aiohttp
import pytest
from support import client
from support.client import Stream, eventually, unbounded_session, unique_name
from support.external_redis import DURABLE, ExternalRedis
from support.interrupted import Interrupted
from support.object_servers import free_ports
from support.repairs import fsck, keys_in, lose_redis, objects_of, recover, seal_all
from support.server import RunningServer, wait_until
from support.wire import Answer, Wire

from ds_server.assembly import Pipes, assemble
from ds_server.settings import Settings
from tiering.errors import Conflict
from tiering.forks import ForkPlace, Wishes
from tiering.hot.connection import Address
from tiering.hot.keys import stream_keys
from tiering.hot.pipe import Pipe
from tiering.messages import NOTHING
from tiering.objects.directory import DirectoryStore
from tiering.stream import Lifetime

MiB = 1024 * 1024
PROMPT = {
    "DS_TIERING__SEAL_AGE_SECS": "0",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
}


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(workers=2, chunk_bytes=64 * 1024, env=PROMPT) as running:
        yield running


def fork(wire: Wire, source: str, name: str, offset: str | None = None) -> Answer:
    place = {} if offset is None else {"stream_fork_offset": offset}
    return wire.ask("PUT", name, stream_forked_from=f"/v1/stream/{source}", **place)


def assert_clean(server: RunningServer) -> None:
    assert fsck(server)["problems"] == []


def stored_bytes(server: RunningServer, name: str) -> int:
    keys = (key for key in keys_in(server, name) if not key.startswith("manifest/"))
    return sum((objects_of(server) / key).stat().st_size for key in keys)


@pytest.mark.timeout(300)
def test_forks_copy_nothing_and_leave_nothing(server: RunningServer) -> None:
    wire, source = Wire(server.url), unique_name()
    wire.ask("PUT", source, content_type="application/octet-stream")
    for _ in range(8):
        wire.ask("POST", source, os.urandom(MiB), content_type="application/octet-stream")
    whole = wire.read_all(source)
    seal_all(server)
    before = stored_bytes(server, source)
    names = [f"{source}-{number}" for number in range(100)]
    assert {fork(wire, source, name).status for name in names} == {201}
    assert stored_bytes(server, source) == before
    assert wire.read_all(names[0]) == wire.read_all(names[-1]) == whole
    for name in (source, *names):
        assert wire.ask("DELETE", name).status == 204
    wait_until(lambda: wire.ask("HEAD", source).status == 404, what="the source to go")
    wait_until(lambda: not keys_in(server, source), 60, "the janitor")
    assert_clean(server)
    wire.close()


class Crowd:
    """Many clients, each with a fork of its own that it makes and deletes, over and over."""

    def __init__(self, server: RunningServer, names: list[str]) -> None:
        self._server = server
        self._names = names
        self._under_way = 0
        self._answered = 0

    async def until_killed(self, rounds: int) -> None:
        """The server dies after so many answers to everyone, with a request of everyone under
        way."""
        everyone = len(self._names)
        async with (
            unbounded_session() as http,
            asyncio.TaskGroup() as crowd,
        ):
            for name in self._names:
                stream = Stream(http, f"{self._server.url}/v1/stream/{name}")
                crowd.create_task(self._make_and_delete(stream, name.rpartition("-")[0]))
            await eventually(self._count, lambda answered: answered >= rounds * everyone)
            self._kill()
            assert self._under_way == everyone

    async def _make_and_delete(self, stream: Stream, source: str) -> None:
        with suppress(aiohttp.ClientError, OSError):
            while True:
                made = stream.ask("PUT", stream_forked_from=f"/v1/stream/{source}")
                assert (await self._counted(made)).status == 201
                assert (await self._counted(stream.delete())).status == 204

    async def _counted(self, request: Awaitable[client.Answer]) -> client.Answer:
        self._under_way += 1
        answer = await request
        self._under_way -= 1
        self._answered += 1
        return answer

    async def _count(self) -> int:
        return self._answered

    def _kill(self) -> None:
        """Workers too: those that live on would end what they have begun."""
        workers = self._server.worker_pids()
        self._server.kill()
        for pid in workers:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.timeout(300)
def test_a_server_killed_amid_forks_and_deletes_keeps_no_reference_too_many_or_too_few() -> None:
    rng = random.Random(7)
    env = PROMPT | {"DS_TIERING__SWEEP_SECS": "3600"}
    with RunningServer(workers=2, chunk_bytes=4096, env=env) as server:
        sources = [unique_name() for _ in range(4)]
        names = [f"{rng.choice(sources)}-{number}" for number in range(200)]
        with Wire(server.url) as wire:
            for source in sources:
                wire.ask("PUT", source, os.urandom(5000), content_type="text/plain")
        asyncio.run(Crowd(server, names).until_killed(rounds=3))
        server.start()
        assert server.command("sweep").returncode == 0
        assert_clean(server)
        with Wire(server.url) as wire:
            assert_lent_to_those_who_live(server, wire, names, sources)
            assert_all_can_go(server, wire, names, sources)


def assert_lent_to_those_who_live(
    server: RunningServer, wire: Wire, forks: list[str], sources: list[str]
) -> None:
    alive = {name for name in forks if wire.ask("HEAD", name).status == 200}
    with server.redis() as redis:
        loans = [one for source in sources for one in redis.zrange(f"ds:{{{source}}}:loans", 0, -1)]
    assert sorted(one.decode().partition(":")[2] for one in loans) == sorted(alive)


def assert_all_can_go(
    server: RunningServer, wire: Wire, forks: list[str], sources: list[str]
) -> None:
    for name in (*forks, *sources):
        assert wire.ask("DELETE", name).status in (204, 404)
    wait_until(lambda: {wire.ask("HEAD", s).status for s in sources} == {404}, 60, "sources")
    assert server.command("sweep").returncode == 0
    wait_until(lambda: not mentioned(server, sources), 60, "the janitor")
    assert_clean(server)


def mentioned(server: RunningServer, names: list[str]) -> list[str]:
    return [key for name in names for key in keys_in(server, name)]


@pytest.mark.timeout(120)
def test_forks_come_back_from_the_bucket_with_what_they_inherit() -> None:
    with RunningServer(workers=1, chunk_bytes=1024, env=PROMPT) as server:
        wire, root = Wire(server.url), unique_name()
        middle, leaf = f"{root}-middle", f"{root}-leaf"
        wire.ask("PUT", root, os.urandom(3000).hex().encode(), content_type="text/plain")
        assert fork(wire, root, middle).status == 201
        wire.ask("POST", root, b"only the root has this", content_type="text/plain")
        wire.ask("POST", middle, b"from the middle", content_type="text/plain")
        assert fork(wire, middle, leaf).status == 201
        wire.ask("POST", leaf, b"from the leaf", content_type="text/plain")
        assert wire.ask("DELETE", middle).status == 204
        before = {name: wire.read_all(name) for name in (root, leaf)}
        seal_all(server)
        wire.close()
        server.stop()
        lose_redis(server)
        assert recover(server)["missing"] == []
        server.start()
        wire = Wire(server.url)
        assert {name: wire.read_all(name) for name in (root, leaf)} == before
        assert wire.ask("GET", middle).status == 410
        assert wire.ask("DELETE", root).status == 204
        assert wire.ask("GET", root).status == 410
        assert wire.read_all(leaf) == before[leaf]
        assert_clean(server)
        assert wire.ask("DELETE", leaf).status == 204
        wait_until(lambda: wire.ask("HEAD", root).status == 404, what="the root to follow")
        wire.close()


def test_a_source_that_expires_while_it_is_forked_is_looked_at_again(
    server: RunningServer, tmp_path: Path
) -> None:
    """It has another fork, so that it is a conflict, not a stream that does not exist."""
    name = unique_name()
    address = Address.parse(f"unix://{server.redis_socket}")

    async def fork_in_vain() -> None:
        pipe, interrupted = Pipe(address, timeout_secs=30), Interrupted(address, timeout_secs=30)
        await pipe.open()
        await interrupted.open()
        try:
            async with DirectoryStore(tmp_path) as store:
                pipes = Pipes(writes=pipe, reads=interrupted, sealing=pipe)
                streams = assemble(Settings(), store, pipes, is_durable=True).streams
                meta = stream_keys(name).meta
                interrupted.act = lambda: pipe.call("HSET", meta, "deadline", 1)
                place, wishes = ForkPlace(name, None, 0), Wishes(None, Lifetime(), closed=False)
                with pytest.raises(Conflict, match="was deleted"):
                    await streams.fork(f"{name}-b", place, wishes, lambda _: NOTHING)
        finally:
            await pipe.close()
            await interrupted.close()

    with Wire(server.url) as wire:
        wire.ask("PUT", name, b"data", content_type="text/plain", stream_ttl="3600")
        assert fork(wire, name, f"{name}-a").status == 201
        asyncio.run(fork_in_vain())
        assert wire.ask("HEAD", f"{name}-b").status == 404


@pytest.mark.timeout(120)
def test_source_and_forks_may_live_in_different_slots_of_a_cluster() -> None:
    """A node of a cluster refuses a script whose keys are in more than one slot."""
    port, bus = free_ports(2)
    node = ("--cluster-enabled", "yes", "--bind", "127.0.0.1")
    ports = ("--port", str(port), "--cluster-port", str(bus))
    with ExternalRedis((*DURABLE, *node, *ports)) as redis:
        take_all_slots(redis)
        env = PROMPT | {"DS_REDIS__URL": redis.url}
        with RunningServer(chunk_bytes=1024, env=env) as server, Wire(server.url) as wire:
            source = unique_name()
            names = [f"{source}-{number}" for number in range(10)]
            wire.ask("PUT", source, b"x" * 3000, content_type="text/plain")
            for name in names:
                assert fork(wire, source, name).status == 201
                assert wire.ask("POST", name, b"own", content_type="text/plain").status == 204
            seal_all(server)
            assert wire.ask("DELETE", source).status == 204
            assert wire.ask("GET", source).status == 410
            assert {wire.read_all(name) for name in names} == {b"x" * 3000 + b"own"}
            assert {wire.ask("DELETE", name).status for name in names} == {204}
            wait_until(lambda: wire.ask("HEAD", source).status == 404, what="the source to go")
            wait_until(lambda: not mentioned(server, [source]), 60, "the janitor")
            assert "CROSSSLOT" not in server.log()


def take_all_slots(redis: ExternalRedis) -> None:
    with redis.client() as client:
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: "cluster_state:ok" in str(client.execute_command("CLUSTER", "INFO")))
