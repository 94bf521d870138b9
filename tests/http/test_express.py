"""Small appends go past the framework, and nobody can tell by the answers."""

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_parser import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st
from support.client import JSON, TEXT, unique_name
from support.connection import Answer, Broken, Connection, head
from support.external_redis import IN_MEMORY, ExternalRedis

from ds_server import express
from ds_server.app import build_app
from ds_server.heads import LONGEST_HEAD, read_head
from ds_server.keys import LEAVING, STREAMS
from ds_server.problem import answer
from ds_server.protocol import Protocol, Runner
from ds_server.settings import Settings, Storage
from tiering.errors import StreamError

CHANGING = ("date", "x-request-id")
PRODUCER = {"producer_id": "p", "producer_epoch": 0}


class Served:
    """The application in this process, so that what the framework handles can be counted."""

    def __init__(self, runner: Runner, url: str) -> None:
        self.runner = runner
        self.url = url

    @property
    def by_the_framework(self) -> int:
        assert self.runner.server is not None
        return self.runner.server.requests_count

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        connection = await Connection.open(self.url)
        try:
            yield connection
        finally:
            connection.close()

    @property
    def protocol(self) -> Protocol:
        """Of the only connection."""
        assert self.runner.server is not None
        (protocol,) = self.runner.server.connections
        assert isinstance(protocol, Protocol)
        return protocol


@pytest.fixture(scope="module")
def redis() -> Iterator[ExternalRedis]:
    with ExternalRedis(IN_MEMORY) as running:
        yield running


@pytest.fixture
async def served(redis: ExternalRedis, tmp_path: Path) -> AsyncIterator[Served]:
    redis.flush()
    settings = Settings(storage=Storage(data_dir=str(tmp_path)))
    app = build_app(settings, redis.url)
    runner = Runner(app, handler_cancellation=True, access_log=None, shutdown_timeout=0.3)
    await runner.setup()
    listener = socket.create_server(("127.0.0.1", 0))
    server = await asyncio.get_running_loop().create_server(runner.server, sock=listener)
    try:
        yield Served(runner, "http://{}:{}".format(*listener.getsockname()))
    finally:
        server.close()
        await runner.cleanup()


@pytest.fixture
async def connection(served: Served) -> AsyncIterator[Connection]:
    async with served.connection() as connection:
        yield connection


def path(name: str | None = None) -> str:
    return f"/v1/stream/{name or unique_name()}"


async def create(connection: Connection, kind: str = JSON, **headers: str) -> str:
    target = path()
    made = await connection.ask("PUT", target, content_type=kind, **headers)
    assert made.status == 201
    return target


def request(target: str, body: bytes, kind: str = JSON, **headers: str | int) -> bytes:
    headers = {"content_type": kind, "content_length": len(body), **headers}
    return head("POST", target, **headers) + body


def what_stays(answer: Answer) -> tuple[int, dict[str, str], bytes]:
    lines = {name: value for name, value in answer.headers.items() if name not in CHANGING}
    return answer.status, lines, answer.body


async def test_a_small_append_goes_past_the_framework(
    served: Served, connection: Connection
) -> None:
    target = await create(connection)
    before = served.by_the_framework
    for number in range(3):
        answer = await connection.ask("POST", target, b"%d" % number, content_type=JSON)
        assert answer.status == 204
    answer = await connection.ask(
        "POST", target, b"3", content_type=JSON, producer_seq=0, **PRODUCER
    )
    assert (answer.status, answer["producer-seq"]) == (200, "0")
    assert served.by_the_framework == before
    assert (await connection.ask("GET", target)).body == b"[0,1,2,3]"


APPENDS = {
    "json": {"body": b'{"a": 1}'},
    "batch": {"body": b'[1, "two", [3]]'},
    "in a bucket": {"body": b"1", "target": "/ds/{bucket}/s"},
    "an id of its own": {"body": b"1", "x_request_id": "mine"},
    "of a producer": dict(body=b"1", producer_seq=0, **PRODUCER),
    "a producer's gap": dict(body=b"1", producer_seq=7, **PRODUCER),
    "a producer without its epoch": {"body": b"1", "producer_id": "p"},
    "in order": {"body": b"1", "stream_seq": "a"},
    "an empty Stream-Seq": {"body": b"1", "stream_seq": ""},
    "closing": {"body": b"1", "stream_closed": "true"},
    "not closing": {"body": b"1", "stream_closed": "false"},
    "broken JSON": {"body": b'{"a": '},
    "nothing": {"body": b""},
    "an empty array": {"body": b"[]"},
    "another type": {"body": b"1", "kind": TEXT},
    "no type": {"body": b"1", "kind": " "},
    "encoded": {"body": b"1", "content_encoding": "gzip"},
    "to no stream": {"body": b"1", "target": "/v1/stream/nowhere"},
    "to no name": {"body": b"1", "target": "/v1/stream/"},
    "to a parent": {"body": b"1", "target": "/v1/stream/a/../b"},
    "to a listing": {"body": b"1", "target": "/ds/{bucket}/streams"},
    "elsewhere": {"body": b"1", "target": "/elsewhere"},
    "to an encoded name": {"body": b"1", "target": "/v1/stream/%6eowhere"},
    "with a query": {"body": b"1", "target": "/v1/stream/nowhere?live=sse"},
}


@pytest.mark.parametrize("which", APPENDS)
async def test_the_answer_is_the_same_by_either_way(
    served: Served, connection: Connection, which: str
) -> None:
    """A request that comes in two pieces is the framework's."""
    given = dict(APPENDS[which])
    outcomes = []
    for pieces in (1, 2):
        bucket = unique_name().replace("/", "-")
        assert (await connection.ask("PUT", f"/ds/{bucket}")).status == 201
        inside = f"/ds/{bucket}/s"
        assert (await connection.ask("PUT", inside, content_type=JSON)).status == 201
        own = await create(connection)
        words = dict(given)
        target = str(words.pop("target", own)).format(bucket=bucket)
        whole = request(target, **words)  # type: ignore[arg-type]
        async with served.connection() as another:
            if pieces == 2:
                await another.send(whole[:20])
                await asyncio.sleep(0.01)
                await another.send(whole[20:])
            else:
                await another.send(whole)
            status, lines, body = what_stays(await another.answer())
        lines.pop("stream-next-offset", None)
        read = [(await connection.ask("GET", place)).body for place in (own, inside)]
        outcomes.append((status, lines, body, read))
    assert outcomes[0] == outcomes[1]


async def test_refusals_that_depend_on_the_stream_are_the_ordinary_ones(
    served: Served, connection: Connection
) -> None:
    target = await create(connection)
    for epoch, seq, status in ((5, 0, 200), (5, 0, 204), (4, 0, 403), (5, 2, 409), (6, 1, 400)):
        words = {"producer_id": "p", "producer_epoch": epoch, "producer_seq": seq}
        answer = await connection.ask("POST", target, b"1", content_type=JSON, **words)
        assert answer.status == status, (epoch, seq)
    for seq, status in (("b", 204), ("a", 409), ("c", 204)):
        answer = await connection.ask("POST", target, b"2", content_type=JSON, stream_seq=seq)
        assert answer.status == status
    assert (await connection.ask("POST", target, stream_closed="true")).status == 204
    refused = await connection.ask("POST", target, b"3", content_type=JSON)
    assert (refused.status, refused["stream-closed"]) == (409, "true")
    assert refused["content-type"] == "application/problem+json"
    assert (await connection.ask("GET", target)).body == b"[1,2,2]"


async def test_requests_in_one_piece_are_answered_in_order(connection: Connection) -> None:
    target = await create(connection)
    await connection.send(b"".join(request(target, b"%d" % n) for n in range(30)))
    offsets = [(await connection.answer())["stream-next-offset"] for _ in range(30)]
    assert offsets == sorted(offsets)
    assert (await connection.ask("GET", target)).body == b"[%s]" % b",".join(
        b"%d" % n for n in range(30)
    )


async def test_who_does_not_wait_for_answers_gets_them_in_order(
    served: Served, connection: Connection
) -> None:
    """What comes while an append is under way waits until that is answered."""
    target = await create(connection)
    for number in range(40):
        await connection.send(request(target, b"%d" % number))
        if number % 3 == 0:
            await connection.send(head("HEAD", target))
        await asyncio.sleep(0)
    for number in range(40):
        assert (await connection.answer()).status == 204
        if number % 3 == 0:
            status, lines = await connection.answer_head()
            assert (status, "stream-next-offset" in lines) == (200, True)
    read = (await connection.ask("GET", target)).body
    assert read == b"[%s]" % b",".join(b"%d" % number for number in range(40))


async def test_a_connection_may_mix_all_kinds_of_requests(
    served: Served, connection: Connection
) -> None:
    """After a body in pieces, whose end only the framework knows, it stays with the framework."""
    target = await create(connection, TEXT)
    first = request(target, b"one ", TEXT)
    await connection.send(first[:-2])
    await asyncio.sleep(0.01)
    await connection.send(first[-2:])
    assert (await connection.answer()).status == 204
    before = served.by_the_framework
    assert (await connection.ask("POST", target, b"two ", content_type=TEXT)).status == 204
    assert served.by_the_framework == before
    chunked = head("POST", target, content_type=TEXT, transfer_encoding="chunked")
    await connection.send(chunked + b"6\r\nthree \r\n0\r\n\r\n")
    assert (await connection.answer()).status == 204
    assert (await connection.ask("POST", target, b"four", content_type=TEXT)).status == 204
    assert served.by_the_framework == before + 2
    assert (await connection.ask("GET", target)).body == b"one two three four"


async def test_who_leaves_before_the_answer_is_appended_all_the_same(
    served: Served, connection: Connection
) -> None:
    target = await create(connection)
    async with served.connection() as another:
        await another.send(request(target, b"1"))
    for _ in range(500):
        if (read := (await connection.ask("GET", target)).body) != b"[]":
            break
    assert read == b"[1]"


async def test_what_is_under_way_when_the_server_leaves_is_answered_and_the_connection_closed(
    served: Served, connection: Connection
) -> None:
    target = await create(connection)
    streams = served.runner.app[STREAMS]
    start = streams.start_append

    def start_and_leave(*words: object) -> bool:
        served.runner.app[LEAVING].set()
        return start(*words)  # type: ignore[arg-type]

    streams.start_append = start_and_leave  # type: ignore[method-assign, assignment]
    answer = await connection.ask("POST", target, b"1", content_type=JSON)
    assert (answer.status, answer["connection"]) == (204, "close")
    assert await connection.until_closed() == b""


async def test_who_comes_back_when_the_framework_has_left_is_answered(
    served: Served, redis: ExternalRedis, connection: Connection
) -> None:
    await create(connection)
    with redis.client() as client:
        client.client_pause(300)
    await connection.send(request(path("nowhere"), b"1"))
    while served.protocol._riding is None:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    assert served.runner.server is not None
    served.runner.server.pre_shutdown()
    leaving = asyncio.create_task(served.runner.server.shutdown(5))
    answer = await connection.answer()
    assert (answer.status, answer["retry-after"]) == (503, "1")
    assert await connection.until_closed() == b""
    await leaving


async def test_an_outcome_that_nobody_knows_is_told_and_not_tried_again(
    served: Served, connection: Connection
) -> None:
    """Redis gets the append, and the connection that its reply would take breaks."""
    target = await create(connection)
    streams = served.runner.app[STREAMS]
    start = streams.start_append

    def start_and_break(*words: object) -> bool:
        was_taken = start(*words)  # type: ignore[arg-type]
        pipe = streams._tier._writes
        pipe._flush()
        pipe._drop()
        return was_taken

    streams.start_append = start_and_break  # type: ignore[method-assign, assignment]
    answer = await connection.ask("POST", target, b"1", content_type=JSON)
    assert (answer.status, answer["retry-after"]) == (503, "1")
    assert answer["content-type"] == "application/problem+json"
    assert answer["access-control-allow-origin"] == "*"
    assert answer.json()["status"] == 503
    streams.start_append = start  # type: ignore[method-assign]
    for _ in range(500):
        if (await connection.ask("POST", target, b"2", content_type=JSON)).status == 204:
            break
        await asyncio.sleep(0.01)
    assert (await connection.ask("GET", target)).body in (b"[1,2]", b"[2]")


async def test_a_writer_who_is_slowed_down_is_answered_or_broken_off(
    served: Served, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = await create(connection)
    streams = served.runner.app[STREAMS]
    settle = streams.settle

    def settle_slowly(*words: object) -> object:
        settled = settle(*words)  # type: ignore[arg-type]
        return settled and (settled[0], 0.05)

    def fail(*_: object) -> None:
        raise RuntimeError

    monkeypatch.setattr(streams, "settle", settle_slowly)
    answer = await connection.ask("POST", target, b"1", content_type=JSON)
    assert answer.status == 204
    monkeypatch.setattr(express, "acknowledged", fail)
    async with asyncio.timeout(5):
        with pytest.raises(Broken):
            await connection.ask("POST", target, b"2", content_type=JSON)


async def test_one_who_cannot_be_told_keeps_no_other_from_being_told(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two wait for Redis when the connection to it breaks."""
    async with served.connection() as first, served.connection() as second:
        target = await create(first)
        await second.ask("GET", target)
        streams = served.runner.app[STREAMS]
        start, started, told = streams.start_append, [], []

        def start_and_break(*words: object) -> bool:
            started.append(start(*words))  # type: ignore[arg-type]
            if len(started) == 2:
                streams._tier._writes._drop()
            return True

        def answer_the_second(error: StreamError) -> web.Response:
            told.append(error)
            if len(told) == 1:
                raise RuntimeError
            return answer(error)

        monkeypatch.setattr(streams, "start_append", start_and_break)
        monkeypatch.setattr(express, "answer", answer_the_second)
        async with asyncio.timeout(5):
            outcomes = await asyncio.gather(
                *(one.ask("POST", target, b"1", content_type=JSON) for one in (first, second)),
                return_exceptions=True,
            )
        assert [one.status for one in outcomes if isinstance(one, Answer)] == [503]
        assert [type(one) for one in outcomes if not isinstance(one, Answer)] == [Broken]


async def test_who_waits_for_his_answer_is_not_taken_for_idle(
    served: Served, redis: ExternalRedis, connection: Connection
) -> None:
    target = await create(connection)
    served.protocol._keepalive_timeout = 0.05
    served.protocol.keep_alive(True)
    with redis.client() as client:
        client.client_pause(500)
    assert (await connection.ask("POST", target, b"1", content_type=JSON)).status == 204
    assert await connection.until_closed() == b""


async def test_who_sends_and_never_reads_is_not_listened_to_for_ever(served: Served) -> None:
    """Answers that nobody takes would fill the server's memory."""
    async with served.connection() as connection:
        target = await create(connection)
        connection.narrow(4096)
        protocol, sent = served.protocol, 0
        piece = request(target, b"1") * 500
        with contextlib.suppress(TimeoutError):
            while sent < 200:
                async with asyncio.timeout(2):
                    await connection.send(piece)
                sent += 1
        assert sent < 200
        assert protocol.transport is not None
        assert protocol.transport.get_write_buffer_size() < 256 * 1024
        connection.break_off()


GET = b"GET /v1/stream/a HTTP/1.1\r\nHost: x\r\nA: b\r\n\r\n"


def test_a_plain_head_is_read() -> None:
    data = request("/v1/stream/a", b"body", x_some_thing="a b ") + b"next"
    found = read_head(data)
    assert found is not None
    assert (found.method, found.target) == ("POST", "/v1/stream/a")
    assert data[found.body_at : found.end] == b"body"
    assert (found.value("Content-Type"), found.value("X-Some-Thing")) == (JSON, "a b")
    assert found.value("Stream-Seq") is None
    assert read_head(GET) is not None


@pytest.mark.parametrize(
    "data",
    [
        GET[:-1],
        b"\r\n" + GET,
        GET.replace(b"1.1", b"1.0"),
        GET.replace(b"GET", b"get"),
        GET.replace(b"GET", b"TRACE"),
        GET.replace(b"/v1", b"http://x/v1"),
        GET.replace(b"stream/a", b"stream/\xc3\xa4"),
        GET.replace(b"stream/a", b"stream/ a"),
        GET.replace(b"A: b", b"A : b"),
        GET.replace(b"A: b", b" A: b"),
        GET.replace(b"A: b", b"A: b\r\n folded"),
        GET.replace(b"A: b", b"A: b\nC: d"),
        GET.replace(b"A: b", b"A: \x00"),
        GET.replace(b"A: b", b"A: \xff"),
        GET.replace(b"A: b", b"A"),
        GET.replace(b"A: b", b"A: b\r\na: c"),
        GET.replace(b"A: b", b"Content-Length: 1\r\nContent-Length: 1"),
        GET.replace(b"A: b", b"Content-Length: +1"),
        GET.replace(b"A: b", b"Content-Length: 1, 1"),
        GET.replace(b"A: b", b"Content-Length: "),
        GET.replace(b"A: b", b"Transfer-Encoding: chunked"),
        GET.replace(b"A: b", b"Connection: close"),
        GET.replace(b"A: b", b"Connection: upgrade"),
        GET.replace(b"A: b", b"Upgrade: websocket"),
        GET.replace(b"A: b", b"Expect: 100-continue"),
        GET.replace(b"A: b", b"A: " + b"b" * LONGEST_HEAD),
        GET.replace(b"Host", b"Most"),
        GET.replace(b"A: b", b"Proxy-Connection: close"),
        GET.replace(b"A: b", b"Sec-WebSocket-Key1: x"),
        GET.replace(b"A: b", b"A: b" + b"".join(b"\r\nA%d: b" % n for n in range(128))),
        GET.replace(b"stream/a", b"stream/" + b"a" * 2000),
    ],
)
def test_a_head_that_could_be_read_in_another_way_is_left_to_the_framework(data: bytes) -> None:
    assert read_head(data) is None


FRAMING = ["Content-Length", "Transfer-Encoding", "Connection", "Proxy-Connection", "Upgrade"]
OTHERS = ["Host", "Keep-Alive", "HTTP2-Settings", "Sec-WebSocket-Key1", "X!#$%&'*+.^_`|~"]
NUMBERS = ["0", "3", "03", "3 ", "3\t", "\t3", "+3", "3,3", "3\r"]
WORDS = ["", "a\tb", "\x00", "\x7f", "keep-alive", "close", "keep-alive, close", "upgrade", "h2c"]
NAMES = st.sampled_from(FRAMING) | st.sampled_from(OTHERS)
VALUES = st.sampled_from(NUMBERS) | st.sampled_from(WORDS)
COLONS = st.sampled_from([": ", ":", ":\t", ": ", ": ", " :"])
ENDS = st.sampled_from(["\r\n"] * 8 + ["\n", "\r\n "])
LINES = st.builds("{}{}{}{}".format, NAMES, COLONS, VALUES, ENDS)
TARGETS = st.sampled_from(["/", "/v1/stream/a", "/a?b#c", "//a", "/%zz", '/"<[{|\\^`', "*", "/a b"])


@given(
    method=st.sampled_from(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "CONNECT"]),
    target=TARGETS,
    lines=st.lists(LINES, max_size=4).map("".join),
    body=st.text("\r\n aG", max_size=5),
)
async def test_a_head_is_read_as_the_framework_reads_it(
    method: str, target: str, lines: str, body: str
) -> None:
    """What comes after it is, for both, another request."""
    data = f"{method} {target} HTTP/1.1\r\nHost: x\r\n{lines}\r\n{body}zzz".encode()
    found = read_head(data)
    if found is None:
        return
    loop = asyncio.get_running_loop()
    parser = HttpRequestParser(BaseProtocol(loop), loop, 2**16)
    [(message, payload)], is_upgraded, _ = parser.feed_data(data[: found.end])
    assert (message.method, message.path) == (found.method, found.target)
    assert {name.lower(): value for name, value in message.headers.items()} == found.fields
    assert (message.should_close, message.upgrade, is_upgraded) == (False, False, False)
    assert payload.is_eof()
    [(message, _)], _, _ = parser.feed_data(GET)
    assert message.path == "/v1/stream/a"


def test_a_head_takes_no_time_to_speak_of() -> None:
    data = GET.replace(b"x", b" " * (LONGEST_HEAD - 100) + b"\x01")
    began = time.process_time()
    for _ in range(10):
        assert read_head(data) is None
    assert time.process_time() - began < 0.1


async def test_a_request_without_a_host_is_refused(connection: Connection) -> None:
    target = await create(connection)
    await connection.send(request(target, b"1").replace(b"host", b"most"))
    assert (await connection.until_closed()).startswith(b"HTTP/1.0 400 ")
