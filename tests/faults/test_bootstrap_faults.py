"""Bootstrap where what it needs cannot be had: who has got nothing yet is told so, and only an
answer that is under way breaks off."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import aiohttp
import pytest
from support import object_servers
from support.client import Answer, Stream, assert_problem, unique_name
from support.extensions import Bucket, bootstrap, new_bucket, publish
from support.object_servers import ObjectServer
from support.repairs import NEVER, keys_in, objects_of, seal_all
from support.s3_line import Call, Hold, Line, answers, passes
from support.server import RunningServer, wait_until

MESSAGES = [b"first", b"second", b"third"]
LARGE = b"x" * 1024 * 1024


@pytest.fixture(scope="module")
def seaweedfs() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(env=NEVER) as running:
        yield running


@pytest.fixture
async def bucket(server: RunningServer, http: aiohttp.ClientSession) -> Bucket:
    return await new_bucket(http, server.url)


@dataclass(frozen=True, slots=True)
class Far:
    """A server, and the line on which its object storage is."""

    server: RunningServer
    line: Line


@pytest.fixture
async def far(seaweedfs: ObjectServer) -> AsyncIterator[Far]:
    async with Line(seaweedfs) as line:
        place = seaweedfs.settings(unique_name()) | {"DS_OBJECTS__ENDPOINT": line.endpoint}
        soon = {"DS_TIERING__DELETE_GRACE_SECS": "0", "DS_TIERING__SWEEP_SECS": "0.2"}
        running = RunningServer(env=NEVER | place | soon)
        try:
            await asyncio.to_thread(running.start)
            yield Far(running, line)
        finally:
            await asyncio.to_thread(running.close)


async def written(bucket: Bucket) -> tuple[Stream, list[str]]:
    """A stream, and the offsets behind its messages."""
    stream = bucket.stream()
    assert (await stream.create()).status == 201
    return stream, [(await stream.append(message)).next_offset for message in MESSAGES]


async def asked(stream: Stream) -> Answer:
    return await Stream(stream.http, f"{stream.url}/bootstrap").ask("GET")


@pytest.mark.parametrize("outage", ["refuses", "fails"])
async def test_while_object_storage_is_away_bootstrap_is_refused_and_then_it_is_whole(
    far: Far, http: aiohttp.ClientSession, outage: str
) -> None:
    bucket = await new_bucket(http, far.server.url)
    (plain, _), (folded, offsets) = await written(bucket), await written(bucket)
    assert (await publish(folded, offsets[0], b"folded")).status == 204
    await asyncio.to_thread(seal_all, far.server)
    far.line.standing = answers(503, "SlowDown")
    if outage == "refuses":
        far.line.refuse()
    for refused in await asyncio.gather(asked(plain), asked(folded)):
        assert_problem(refused, 503)
        assert refused["Retry-After"] is not None
    if outage == "refuses":
        await far.line.accept()
    far.line.standing = passes
    assert (await bootstrap(plain)).messages == MESSAGES
    assert (await bootstrap(folded)).messages == MESSAGES[1:]


async def test_a_snapshot_that_is_missing_is_said_before_anything_is_sent(
    server: RunningServer, bucket: Bucket
) -> None:
    stream, offsets = await written(bucket)
    assert (await publish(stream, offsets[0], b"folded")).status == 204
    [key] = keys_in(server, f"snapshots/__ds%2F{bucket.id}")
    (objects_of(server) / key).unlink()
    refused = await asked(stream)
    assert_problem(refused, 500)
    assert key in refused.json()["detail"]


@pytest.mark.parametrize("kind", ["parts", "index/parts"])
async def test_messages_that_are_missing_are_said_while_little_would_have_been_sent(
    server: RunningServer, bucket: Bucket, kind: str
) -> None:
    stream, offsets = await written(bucket)
    assert (await publish(stream, offsets[0], b"folded")).status == 204
    await asyncio.to_thread(seal_all, server)
    [key] = [key for key in keys_in(server, bucket.id) if key.startswith(kind)]
    (objects_of(server) / key).unlink()
    assert_problem(await asked(stream), 500)


async def test_what_is_under_way_breaks_off_without_its_end(
    server: RunningServer, bucket: Bucket
) -> None:
    stream, offsets = await written(bucket)
    assert (await publish(stream, offsets[0], LARGE)).status == 204
    await asyncio.to_thread(seal_all, server)
    for key in keys_in(server, bucket.id):
        if key.startswith("parts"):
            (objects_of(server) / key).unlink()
    async with stream.http.get(f"{stream.url}/bootstrap") as answer:
        assert answer.status == 200
        with pytest.raises(aiohttp.ClientPayloadError):
            await answer.read()


async def test_a_snapshot_that_is_replaced_before_it_is_read_gives_way_to_the_new_one(
    far: Far, http: aiohttp.ClientSession
) -> None:
    stream, offsets = await written(await new_bucket(http, far.server.url))
    assert (await publish(stream, offsets[0], b"old")).status == 204
    hold, is_held = Hold(), asyncio.Event()

    async def holds_reads_of_snapshots(call: Call) -> None:
        is_read = call.request.startswith(b"GET ") and b"/snapshots/" in call.request[:300]
        if is_read:
            is_held.set()
        await (hold if is_read else passes)(call)

    far.line.standing = holds_reads_of_snapshots
    answer = asyncio.create_task(bootstrap(stream))
    await is_held.wait()
    far.line.standing = passes
    assert (await publish(stream, offsets[1], b"new")).status == 204
    await asyncio.to_thread(gone, far)
    hold.release()
    found = await answer
    assert found.answer["Stream-Snapshot-Offset"] == offsets[1]
    assert (found.snapshot[1], found.messages) == (b"new", MESSAGES[2:])


def gone(far: Far) -> None:
    """Waits until there is but one snapshot."""
    prefix = far.server.environment["DS_OBJECTS__URL"].rpartition("/")[2]
    wait_until(lambda: len(far.line.server.keys(f"{prefix}/snapshots/")) == 1)
