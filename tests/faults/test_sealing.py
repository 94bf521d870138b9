"""Sealers that get in each other's way, and sealers that come back from the dead."""

import asyncio
import contextlib
import hashlib
import json
import os
from collections.abc import AsyncIterator

import pytest
from support.client import unique_name
from support.pausing_sealer import frozen_sealer, thaw
from support.repairs import keys_in, objects_of, seal_all
from support.server import RunningServer, wait_until
from support.wire import Wire

from tiering.cold.index import Record
from tiering.cold.sealer import Sealer
from tiering.hot.connection import Address
from tiering.hot.fence import Fence
from tiering.hot.graveyard import Graveyard
from tiering.hot.logs import Logs
from tiering.hot.pipe import Pipe
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk, Survey
from tiering.objects.directory import DirectoryStore

CHUNK = 4096
NEVER = {"DS_TIERING__SEAL_AGE_SECS": "86400"}


def contents(server: RunningServer) -> dict[str, str]:
    files = (path for path in objects_of(server).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def objects_named(server: RunningServer, stream: str) -> list[str]:
    return keys_in(server, f"{stream}/")


@pytest.mark.timeout(120)
def test_a_sealer_frozen_between_put_and_commit_overwrites_and_loses_nothing() -> None:
    name, written = unique_name(), b""
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, content_type="text/plain")

        def write(count: int) -> bytes:
            data = b"".join(os.urandom(100).hex().encode() for _ in range(count))
            assert wire.ask("POST", name, data, content_type="text/plain").status == 204
            return data

        written += write(5)
        with frozen_sealer(server, name) as frozen:
            assert wire.read_all(name) == written
            seal_all(server)
            assert wire.read_all(name) == written
            written += write(100)
            seal_all(server)
            before = contents(server)
            thaw(frozen)
        after = contents(server)
        assert {path: after.get(path) for path in before} == before
        assert wire.read_all(name) == written
        written += write(50)
        seal_all(server)
        assert wire.read_all(name) == written
        wire.close()


@pytest.mark.timeout(120)
def test_a_sealer_frozen_while_its_stream_is_deleted_leaves_no_object_of_it() -> None:
    name = unique_name()
    without_grace = NEVER | {"DS_TIERING__DELETE_GRACE_SECS": "0"}
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=without_grace) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, b"some data", content_type="text/plain")
        with frozen_sealer(server, name) as frozen:
            assert wire.ask("DELETE", name).status == 204
            thaw(frozen)
        assert wire.ask("GET", name).status == 404
        wait_until(lambda: not objects_named(server, name), what="the janitor")
        wire.close()


@pytest.mark.timeout(120)
def test_no_manifest_is_written_for_a_stream_that_is_gone_before_it_was_announced() -> None:
    """Nothing would say that it may be there: it would live on, and come back in a recovery."""
    name = unique_name()
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        wire.ask("PUT", name, b"some data", content_type="text/plain")
        asyncio.run(write_late_manifest(server, wire, name))
        assert objects_named(server, name) == []


async def write_late_manifest(server: RunningServer, wire: Wire, name: str) -> None:
    async with redis_of(server) as pipe, DirectoryStore(objects_of(server)) as store:
        sealer = Sealer.on(pipe, store, Pressure(pipe, 2**40), is_durable=True, seal_age_secs=0)
        survey = await SealingDesk(pipe).survey(name)
        assert survey is not None
        assert wire.ask("DELETE", name).status == 204
        await sealer._manifests.write(survey)


@pytest.mark.timeout(120)
def test_a_sealer_frozen_while_its_stream_gets_a_new_log_leaves_the_old_ones_pieces() -> None:
    """Another one has committed the very piece that it cannot commit any more."""
    name, written = unique_name(), b"some data"
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, written, content_type="text/plain")
        with frozen_sealer(server, name) as frozen:
            seal_all(server)
            asyncio.run(give_new_log(server, name))
            thaw(frozen)
        assert wire.read_all(name) == written
        assert len(objects_named(server, f"parts/{name}")) >= 1
        wire.close()


async def give_new_log(server: RunningServer, name: str) -> None:
    """As the server does when a log may have told more than is left of it."""
    async with redis_of(server) as pipe:
        survey = await SealingDesk(pipe).survey(name)
        assert survey is not None
        assert await Logs(pipe, is_durable=True).relog(name, survey.log, "tail")


@contextlib.asynccontextmanager
async def redis_of(server: RunningServer) -> AsyncIterator[Pipe]:
    pipe = Pipe(Address.parse(f"unix://{server.redis_socket}"), timeout_secs=30)
    await pipe.open()
    try:
        yield pipe
    finally:
        await pipe.close()


class OvertakenDesk(SealingDesk):
    """Another sealer commits the piece while its records are being read."""

    other: Sealer
    was_overtaken = False

    async def records(self, survey: Survey, end: int) -> list[Record]:
        if not self.was_overtaken:
            self.was_overtaken = True
            await self.other._seal_piece(survey, end)
        return await super().records(survey, end)


@pytest.mark.timeout(120)
def test_a_sealer_that_is_overtaken_while_it_reads_does_not_take_redis_for_one_that_lost_data(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The append that the chunk divides stays in Redis: something is left to be read."""
    name, numbers = unique_name(), list(range(1500))
    with RunningServer(chunk_bytes=CHUNK, env=NEVER) as server, Wire(server.url) as wire:
        wire.ask("PUT", name, b"[1,2,3]", content_type="application/json")
        log = str(wire.ask("HEAD", name)["Stream-Next-Offset"])[:16]
        asyncio.run(keep_from_sealing(server, name))
        body = json.dumps(numbers).encode()
        assert wire.ask("POST", name, body, content_type="application/json").status == 204
        assert asyncio.run(seal_overtaken(server, name)).was_overtaken
        assert "back in time" not in caplog.text
        assert str(wire.ask("HEAD", name)["Stream-Next-Offset"])[:16] == log
        assert json.loads(wire.read_all_json(name)) == [1, 2, 3, *numbers]


async def keep_from_sealing(server: RunningServer, name: str) -> None:
    async with redis_of(server) as pipe:
        assert await SealingDesk(pipe).lease(name, "the test", 60_000)


async def seal_overtaken(server: RunningServer, name: str) -> OvertakenDesk:
    async with redis_of(server) as pipe, DirectoryStore(objects_of(server)) as store:
        pressure, graves = Pressure(pipe, 2**40), Graveyard(pipe)
        logs, fence = Logs(pipe, is_durable=True), Fence(pipe, is_durable=True)
        desk = OvertakenDesk(pipe)
        desk.other = Sealer.on(pipe, store, pressure, is_durable=True, seal_age_secs=0)
        await Sealer(desk, store, pressure, logs, fence, graves, seal_age_secs=0).seal_all(name)
    return desk
