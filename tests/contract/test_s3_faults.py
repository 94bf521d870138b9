"""What becomes of failures between us and S3: refused, busy, broken off, spoiled, silent."""

import asyncio
import random
import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from support.object_servers import ObjectServer, free_ports
from support.s3_line import Call, Fault, Line, answers, is_silent, loses_the_answer, passes

from tiering.errors import Refused, Unavailable
from tiering.objects.retry import Patience
from tiering.objects.s3 import S3Store

MEBIBYTE = 1 << 20
BODY = random.Random(1).randbytes(MEBIBYTE)
QUICK = Patience(attempts=3, first_pause_secs=0.001, longest_pause_secs=0.002)
HASTY = replace(QUICK, attempts=2, read_secs=0.3)


async def breaks_off(call: Call) -> None:
    await call.send((await call.asked())[: -MEBIBYTE // 2])


async def falls_silent(call: Call) -> None:
    await breaks_off(call)
    await call.is_over.wait()


async def spoils_the_body(call: Call) -> None:
    spoiled = call.request[:-1] + bytes([call.request[-1] ^ 1])
    await call.send(await call.asked(spoiled))


async def forgets_the_range(call: Call) -> None:
    await call.send(await call.asked(re.sub(rb"(?i)\r\nrange: [^\r]*", b"", call.request)))


async def denies_the_range(call: Call) -> None:
    is_get = call.request.startswith(b"GET")
    await (answers(416, "InvalidRange") if is_get else passes)(call)


async def sends_another_range(call: Call) -> None:
    other = call.request.replace(b"bytes=100-1048575", b"bytes=99-1048574")
    await call.send(await call.asked(other))


BUSY = answers(503, "SlowDown")


def store_at(line: Line, prefix: str, **different: Any) -> S3Store:
    known: dict[str, Any] = {
        "patience": QUICK,
        "endpoint": line.endpoint,
        "session": line.server.session,
    }
    return S3Store(line.server.bucket, prefix, **(known | different))


@pytest.fixture
async def line(moto: ObjectServer) -> AsyncIterator[Line]:
    async with Line(moto) as line:
        yield line


@pytest.fixture
def prefix(moto: ObjectServer) -> str:
    """Under it there is one object, a/1."""
    prefix = f"tests/{uuid.uuid4().hex}"
    moto.client.put_object(Bucket=moto.bucket, Key=f"{prefix}/a/1", Body=BODY)
    return prefix


@pytest.fixture
async def store(line: Line, prefix: str) -> AsyncIterator[S3Store]:
    async with store_at(line, prefix) as store:
        yield store


async def test_what_passes_is_tried_again(store: S3Store, line: Line) -> None:
    line.meets(BUSY, answers(500, "InternalError"))
    assert await store.get("a/1") == BODY
    line.meets(BUSY, loses_the_answer)
    assert [info.key async for info in store.list()] == ["a/1"]
    line.meets(BUSY, loses_the_answer)
    assert b"".join([piece async for piece in store.stream("a/1")]) == BODY
    line.meets(answers(409, "ConditionalRequestConflict"), answers(400, "RequestTimeout"))
    assert await store.put_if_absent("a/2", b"new")
    line.meets(BUSY, loses_the_answer)
    await store.delete(["a/1"])
    line.meets(BUSY, answers(429, "TooManyRequests"))
    assert await store.head("a/1") is None


async def test_what_does_not_pass_is_unavailable_after_all_attempts(
    store: S3Store, line: Line
) -> None:
    line.meets(*[BUSY] * 9)
    with pytest.raises(Unavailable, match="SlowDown"):
        await store.get("a/1")
    assert line.requests == QUICK.attempts


@pytest.mark.parametrize(("status", "code"), [(403, "AccessDenied"), (501, "NotImplemented")])
async def test_a_refusal_is_unavailable_at_once(
    store: S3Store, line: Line, status: int, code: str
) -> None:
    line.meets(*[answers(status, code)] * 9)
    with pytest.raises(Unavailable, match=code):
        await store.put_if_absent("a/2", b"")
    assert line.requests == 1


async def test_a_write_whose_answer_is_lost_is_found_by_the_second_attempt(
    store: S3Store, line: Line
) -> None:
    line.meets(loses_the_answer)
    assert not await store.put_if_absent("a/2", b"new")
    assert await store.get("a/2") == b"new"


async def test_an_object_that_cannot_be_deleted_is_an_error(store: S3Store, line: Line) -> None:
    body = "<DeleteResult><Error><Key>a/1</Key><Code>AccessDenied</Code></Error></DeleteResult>"
    answer = f"HTTP/1.1 200 OK\r\ncontent-length: {len(body)}\r\n\r\n{body}".encode()
    line.meets(lambda call: call.send(answer))
    with pytest.raises(Unavailable, match="AccessDenied"):
        await store.delete(["a/1"])


async def test_a_body_broken_off_is_fetched_again(store: S3Store, line: Line) -> None:
    line.meets(breaks_off, breaks_off)
    assert await store.get("a/1") == BODY
    assert line.requests == QUICK.attempts


@pytest.mark.parametrize(
    "fault", [breaks_off, forgets_the_range, denies_the_range, sends_another_range]
)
async def test_a_wrong_body_is_never_taken_for_the_right_one(
    store: S3Store, line: Line, fault: Fault
) -> None:
    line.meets(*[fault] * 9)
    with pytest.raises(Unavailable):
        await store.get("a/1", 100, MEBIBYTE)


@pytest.mark.parametrize("fault", [breaks_off, falls_silent])
async def test_a_stream_broken_off_ends_with_an_error(
    line: Line, prefix: str, fault: Fault
) -> None:
    line.meets(fault)
    received: list[bytes] = []

    async def read(store: S3Store) -> None:
        async for piece in store.stream("a/1"):
            received.append(piece)

    async with store_at(line, prefix, patience=HASTY) as store:
        with pytest.raises(Unavailable):
            await read(store)
    assert 0 < len(b"".join(received)) < MEBIBYTE
    assert BODY.startswith(b"".join(received))


async def test_a_stream_may_be_read_slowly(line: Line, prefix: str) -> None:
    received = b""
    async with store_at(line, prefix, patience=HASTY) as store:
        async for piece in store.stream("a/1"):
            await asyncio.sleep(0 if received else 3 * HASTY.read_secs)
            received += piece
    assert received == BODY


async def test_open_streams_leave_connections_to_others(line: Line, prefix: str) -> None:
    async with store_at(line, prefix, connections=1) as store:
        stream = store.stream("a/1")
        first = await anext(stream)
        assert await store.get("a/1", 0, 10) == BODY[:10]
        assert first + b"".join([piece async for piece in stream]) == BODY


@pytest.mark.parametrize("fault", [is_silent, falls_silent])
async def test_silence_is_unavailable_after_a_while(line: Line, prefix: str, fault: Fault) -> None:
    line.meets(*[fault] * 9)
    async with asyncio.timeout(30), store_at(line, prefix, patience=HASTY) as store:
        with pytest.raises(Unavailable):
            await store.get("a/1")
    assert line.requests == HASTY.attempts


async def test_a_server_that_does_not_take_a_body_is_unavailable(moto: ObjectServer) -> None:
    hasty = replace(HASTY, attempt_secs=0.5)
    async with (
        asyncio.timeout(30),
        Line(moto, takes_bodies=False) as line,
        store_at(line, "tests", patience=hasty) as store,
    ):
        with pytest.raises(Unavailable):
            await store.put("a/1", bytes(32 * MEBIBYTE))


async def test_waiting_for_a_free_connection_ends_too(line: Line, prefix: str) -> None:
    line.meets(is_silent, is_silent)
    patience = replace(QUICK, attempts=1, attempt_secs=0.5)
    async with (
        asyncio.timeout(30),
        store_at(line, prefix, patience=patience, connections=1) as store,
    ):
        outcomes = await asyncio.gather(store.get("a/1"), store.get("a/1"), return_exceptions=True)
    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)


async def test_a_body_spoiled_on_the_way_is_not_kept(seaweedfs: ObjectServer) -> None:
    """Not on moto, which believes any checksum."""
    async with Line(seaweedfs) as line, store_at(line, f"tests/{uuid.uuid4().hex}") as store:
        line.meets(spoils_the_body)
        assert await store.put_if_absent("a/1", BODY)
        assert line.requests == 2
        assert await store.get("a/1") == BODY


async def test_nobody_there_is_unavailable_and_refused_in_one_line(moto: ObjectServer) -> None:
    [port] = free_ports(1)
    endpoint = f"http://127.0.0.1:{port}"
    async with (
        asyncio.timeout(30),
        S3Store(moto.bucket, endpoint=endpoint, patience=QUICK, session=moto.session) as store,
    ):
        with pytest.raises(Unavailable):
            await store.get("a/1")
        with pytest.raises(Unavailable):
            assert [piece async for piece in store.stream("a/1")] == []
        with pytest.raises(Refused, match=rf"^s3://{moto.bucket}/ at {endpoint} [^\n]*$"):
            await store.check()


async def test_no_permission_is_refused_in_one_line(store: S3Store, line: Line) -> None:
    line.meets(passes, answers(403, "AccessDenied"))
    with pytest.raises(Refused, match=r"^s3://[^\n]*AccessDenied[^\n]*PutObject[^\n]*$"):
        await store.check()


async def test_a_server_without_put_if_absent_is_refused(store: S3Store, line: Line) -> None:
    async def ignores_the_condition(call: Call) -> None:
        plain = re.sub(rb"(?i)\r\nif-none-match: [^\r]*", b"", call.request)
        await call.send(await call.asked(plain))

    line.meets(*[ignores_the_condition] * 9)
    with pytest.raises(Refused, match="put-if-absent"):
        await store.check()
    assert [info.key async for info in store.list()] == ["a/1"]


async def test_no_credentials_are_refused_in_one_line(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    async with store_at(line, "tests", session=None) as store:
        with pytest.raises(Refused, match=r"^s3://[^\n]*credentials[^\n]*$"):
            await store.check()


async def test_an_endpoint_that_is_no_address_is_refused() -> None:
    with pytest.raises(Refused, match="nonsense"):
        async with S3Store("bucket", endpoint="nonsense"):
            pass
