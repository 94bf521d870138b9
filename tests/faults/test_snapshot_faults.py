"""Uploads of snapshots that fail, race, or are very large: the old one stays until a new one is
whole, nothing is left behind, and the server does not grow."""

import asyncio
import io
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from support import object_servers, trial
from support.client import TEXT, Answer, Stream, assert_problem, eventually, unique_name
from support.connection import Connection, head
from support.metrics import memory_bytes
from support.object_servers import ObjectServer
from support.repairs import assert_sound, keys_in, objects_of
from support.s3_line import Call, Fault, Hold, Line, answers, breaks_off_in_the_middle, passes
from support.server import RunningServer
from support.small_disk import small_disk

MIB = 1024 * 1024
LARGE_MIB = 256
MOST_GROWTH_BYTES = 64 * MIB
TIDY = {
    "DS_TIERING__SEAL_AGE_SECS": "0",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "0.2",
}

pytestmark = pytest.mark.timeout(180)


class Subject:
    """A stream in a bucket, and its snapshots."""

    def __init__(self, http: aiohttp.ClientSession, server: RunningServer) -> None:
        self.server = server
        self.bucket = Stream(http, f"{server.url}/ds/{unique_name()}")
        self.stream = Stream(http, f"{self.bucket.url}/it", TEXT)
        self.offsets: list[str] = []

    async def begin(self) -> "Subject":
        assert (await self.bucket.ask("PUT")).status == 201
        self.offsets = [(await self.stream.create()).next_offset]
        for number in range(10):
            self.offsets.append((await self.stream.append(b"%d" % number)).next_offset)
        return self

    def at(self, number: int) -> Stream:
        return Stream(self.stream.http, f"{self.stream.url}/snapshot/{self.offsets[number]}", TEXT)

    async def assert_in_force(self, number: int, body: bytes) -> None:
        assert (await self.stream.head())["Stream-Snapshot-Offset"] == self.offsets[number]
        assert (await self.at(number).read()).body == body

    async def found_drafts(self) -> list[str]:
        """Uploads that are under way."""
        return [path.name for path in (objects_of(self.server) / "^scratch").iterdir()]

    async def assert_nothing_is_left(self, snapshots: int) -> None:
        async def left() -> tuple[int, list[str]]:
            return len(keys_in(self.server, "snapshots/")), await self.found_drafts()

        await eventually(left, lambda found: found == (snapshots, []))


async def put(stream: Stream, body: bytes | AsyncIterator[bytes]) -> Answer:
    data = io.BytesIO(body) if isinstance(body, bytes) else body
    async with stream.http.put(stream.url, data=data, headers={"Content-Type": TEXT}) as answer:
        return Answer(answer.status, answer.headers, await answer.read())


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(workers=2, env=TIDY) as running:
        yield running


@pytest.mark.parametrize("is_chunked", [False, True])
async def test_a_client_that_leaves_half_way_publishes_nothing(
    server: RunningServer, http: aiohttp.ClientSession, is_chunked: bool
) -> None:
    subject = await Subject(http, server).begin()
    assert (await put(subject.at(2), b"old")).status == 204
    target = subject.at(5).url.removeprefix(server.url)
    length = {"transfer_encoding": "chunked"} if is_chunked else {"content_length": "1000000"}
    connection = await Connection.open(server.url)
    await connection.send(head("PUT", target, content_type=TEXT, **length))
    piece = b"x" * 100_000
    await connection.send(b"%x\r\n%b\r\n" % (len(piece), piece) if is_chunked else piece)
    await eventually(subject.found_drafts, bool)
    connection.close()
    await subject.assert_nothing_is_left(snapshots=1)
    await subject.assert_in_force(2, b"old")
    assert (await put(subject.at(5), b"new")).status == 204
    await subject.assert_in_force(5, b"new")
    await subject.assert_nothing_is_left(snapshots=1)
    await asyncio.to_thread(assert_sound, server)


async def test_of_many_publishers_at_one_offset_one_succeeds(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """And all who bring the same."""
    subject = await Subject(http, server).begin()
    bodies = [b"%d" % (number % 3) * 50_000 for number in range(12)]
    found = await asyncio.gather(*(put(subject.at(5), body) for body in bodies))
    assert Counter(answer.status for answer in found) == {204: 4, 409: 8}
    [winner] = {body for body, answer in zip(bodies, found, strict=True) if answer.status == 204}
    await subject.assert_in_force(5, winner)
    await subject.assert_nothing_is_left(snapshots=1)
    await asyncio.to_thread(assert_sound, server)


async def test_of_many_publishers_the_furthest_wins(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    subject = await Subject(http, server).begin()
    order = [3, 9, 1, 7, 5, 10, 2, 8, 4, 6]
    bodies = {number: b"%02d" % number * 20_000 for number in order}
    found = await asyncio.gather(*(put(subject.at(number), bodies[number]) for number in order))
    statuses = {number: answer.status for number, answer in zip(order, found, strict=True)}
    assert set(statuses.values()) <= {204, 410}
    assert statuses[10] == 204
    await subject.assert_in_force(10, bodies[10])
    await subject.assert_nothing_is_left(snapshots=1)
    await asyncio.to_thread(assert_sound, server)


async def test_a_snapshot_that_comes_too_late_changes_nothing(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """Its object may be gone by then; the one in force must not go for it."""
    subject = await Subject(http, server).begin()
    assert (await put(subject.at(2), b"old")).status == 204
    connection = await Connection.open(server.url)
    target = subject.at(5).url.removeprefix(server.url)
    await connection.send(head("PUT", target, content_type=TEXT, content_length="10"))
    await connection.send(b"01234")
    records = f"ds:{{__ds/{subject.stream.url.partition('/ds/')[2]}}}:shed"
    with server.redis() as redis:

        async def intentions() -> int:
            return int(redis.zcard(records))  # type: ignore[arg-type]

        await eventually(intentions, bool)
        redis.delete(records)
    await connection.send(b"56789")
    late = await connection.answer()
    connection.close()
    assert late.status == 503
    await subject.assert_nothing_is_left(snapshots=1)
    await subject.assert_in_force(2, b"old")
    await asyncio.to_thread(assert_sound, server)


async def test_a_full_disk_refuses_a_snapshot_and_keeps_the_old_one(
    http: aiohttp.ClientSession,
) -> None:
    with (
        small_disk(32) as disk,
        RunningServer(env=TIDY | {"DS_OBJECTS__URL": (disk.path / "objects").as_uri()}) as server,
    ):
        subject = await Subject(http, server).begin()
        assert (await put(subject.at(2), b"old")).status == 204
        for _ in range(3):
            answer = await put(subject.at(5), b"x" * 40 * MIB)
            assert_problem(answer, 503)
            assert "No space left" in json.loads(answer.body)["detail"]
            assert answer["Retry-After"] is not None
        await subject.assert_in_force(2, b"old")
        assert (await put(subject.at(5), b"x" * 20 * MIB)).status == 204
        await subject.assert_in_force(5, b"x" * 20 * MIB)
        assert list((disk.path / "objects" / "^scratch").iterdir()) == []
        await asyncio.to_thread(assert_sound, server)


@pytest.fixture(scope="module")
def seaweedfs() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


@pytest.mark.parametrize("size", [1000, 9 * MIB], ids=["small", "in parts"])
async def test_object_storage_that_fails_or_hangs_keeps_the_old_snapshot(
    seaweedfs: ObjectServer, http: aiohttp.ClientSession, size: int
) -> None:
    prefix, body = unique_name(), b"x" * size
    async with Line(seaweedfs) as line:
        place = seaweedfs.settings(prefix) | {"DS_OBJECTS__ENDPOINT": line.endpoint}
        async with trial.server(TIDY | place) as server:
            subject = await Subject(http, server).begin()
            assert (await put(subject.at(2), b"old")).status == 204
            await refused(line, takes_no_snapshot, subject, body)
            assert unfinished(seaweedfs, prefix) == []
            await refused(line, breaks_off_in_the_middle, subject, body)
            await subject.assert_in_force(2, b"old")
            assert (await held_up(line, subject, body)).status == 204
            await subject.assert_in_force(5, body)

            async def left() -> int:
                return len(seaweedfs.keys(f"{prefix}/snapshots/"))

            await eventually(left, lambda count: count == 1)
            await asyncio.to_thread(assert_sound, server)


async def takes_no_snapshot(call: Call) -> None:
    """Neither whole ones nor parts; everything else passes."""
    is_snapshot = call.request.startswith(b"PUT ") and b"/snapshots/" in call.request[:300]
    await (answers(500, "InternalError") if is_snapshot else passes)(call)


def unfinished(store: ObjectServer, prefix: str) -> list[str]:
    """Uploads that were begun and neither finished nor abandoned."""
    found = store.client.list_multipart_uploads(Bucket=store.bucket).get("Uploads", [])
    return [one["Key"] for one in found if prefix in one["Key"]]


async def held_up(line: Line, subject: Subject, body: bytes) -> Answer:
    """Object storage is silent for a while: nobody else waits for that."""
    hold = Hold()
    line.standing = hold
    publishing = asyncio.create_task(put(subject.at(5), body))
    for number in range(20):
        assert (await subject.stream.append(b"%d" % number)).status == 204
    assert (await subject.stream.head())["Stream-Snapshot-Offset"] == subject.offsets[2]
    line.standing = passes
    hold.release()
    return await publishing


async def refused(line: Line, fault: Fault, subject: Subject, body: bytes) -> None:
    line.standing = fault
    assert_problem(await put(subject.at(5), body), 503)
    line.standing = passes


async def test_a_large_snapshot_does_not_grow_the_server(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    await assert_bounded(await Subject(http, server).begin())


async def test_a_large_snapshot_on_its_way_to_a_bucket_does_not_grow_the_server(
    seaweedfs: ObjectServer, http: aiohttp.ClientSession
) -> None:
    with RunningServer(workers=2, env=TIDY | seaweedfs.settings(unique_name())) as server:
        await assert_bounded(await Subject(http, server).begin())


async def assert_bounded(subject: Subject) -> None:
    """Published, read as it is, and read by who bootstraps."""
    before = memory_bytes(subject.server)
    watching = asyncio.create_task(highest(subject.server))
    assert (await put(subject.at(5), pieces())).status == 204
    for path in (subject.at(5).url, f"{subject.stream.url}/bootstrap"):
        async with subject.stream.http.get(path) as answer:
            size = 0
            async for piece in answer.content.iter_any():
                size += len(piece)
            assert size >= LARGE_MIB * MIB
    watching.cancel()
    grown = (await watching) - before
    print(f"{grown / MIB:.0f} MiB more with a snapshot of {LARGE_MIB} MiB")
    assert grown < MOST_GROWTH_BYTES


async def pieces() -> AsyncIterator[bytes]:
    for number in range(LARGE_MIB):
        yield bytes([number % 251]) * MIB


async def highest(server: RunningServer) -> int:
    most = 0
    try:
        while True:
            most = max(most, memory_bytes(server))
            await asyncio.sleep(0.1)
    except asyncio.CancelledError:
        return most


async def test_readers_who_do_not_read_a_bootstrap_do_not_grow_the_server(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    subject = await Subject(http, server).begin()
    assert (await put(subject.at(5), b"x" * 32 * MIB)).status == 204
    await subject.stream.append(b"y" * 8 * MIB)
    before = memory_bytes(server)
    stalled = [await Connection.open(server.url) for _ in range(40)]
    for connection in stalled:
        connection.narrow(64 * 1024)
        target = f"{subject.stream.url.removeprefix(server.url)}/bootstrap"
        await connection.send(head("GET", target))
        status, _ = await connection.answer_head()
        assert status == 200
    whole = await Stream(http, f"{subject.stream.url}/bootstrap").read()
    assert len(whole.body) > 40 * MIB
    grown = memory_bytes(server) - before
    for connection in stalled:
        connection.close()
    print(f"{grown / MIB:.0f} MiB for {len(stalled)} stalled readers")
    assert grown < MOST_GROWTH_BYTES
