"""Bad input gets a clear answer, and the stream still holds exactly what it held."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import repeat
from unittest.mock import Mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDictProxy
from support.client import JSON, TEXT, unique_name
from support.raw import Answer, Closed, Raw, assert_clear_refusal, head, whole
from support.server import RunningServer, wait_until

from ds_server.manners import clothe, explain

LARGEST_BODY = 64 * 1024
LARGEST_STREAM = 96 * 1024
BODY_TIMEOUT_SECS = 0.5

AS_TEXT = f"Content-Type: {TEXT}"
AS_JSON = f"Content-Type: {JSON}"
EMPTY = "Content-Length: 0"
CHUNKED = "Transfer-Encoding: chunked"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    env = {
        "DS_LIMITS__MAX_BODY_BYTES": str(LARGEST_BODY),
        "DS_LIMITS__MAX_STREAM_BYTES": str(LARGEST_STREAM),
        "DS_LIMITS__BODY_TIMEOUT_SECS": str(BODY_TIMEOUT_SECS),
    }
    with RunningServer(workers=2, env=env) as running:
        workers = running.worker_pids()
        yield running
        assert running.worker_pids() == workers
        assert "Traceback" not in running.log()


@dataclass(frozen=True)
class State:
    next_offset: str | None
    closed: str | None
    body: bytes


class Kept:
    """A stream with something in it, to be compared with itself after a refusal."""

    def __init__(self, server: RunningServer, content_type: str, body: bytes) -> None:
        self.url = server.url
        self.target = f"/v1/stream/{unique_name('kept')}"
        created = self.ask(whole("PUT", self.target, f"Content-Type: {content_type}", body=body))
        assert created.status == 201
        self._before = self._state()
        assert self._before.body

    def ask(self, data: bytes, method: str = "GET") -> Answer:
        """One request on a connection of its own."""
        with Raw(self.url) as raw:
            return raw.ask(data, method)

    def refuse(self, data: bytes, *statuses: int, method: str = "GET") -> Answer:
        answer = self.ask(data, method)
        assert_clear_refusal(answer, *statuses, method=method)
        self.assert_unchanged()
        return answer

    def assert_unchanged(self) -> None:
        assert self._state() == self._before

    def token(self, position: int) -> str:
        assert self._before.next_offset is not None
        return f"{self._before.next_offset.split('_')[0]}_{position:016d}"

    def _state(self) -> State:
        answer = self.ask(head("GET", self.target))
        assert answer.status == 200
        return State(answer["Stream-Next-Offset"], answer["Stream-Closed"], answer.body)


@pytest.fixture
def kept(server: RunningServer) -> Kept:
    return Kept(server, TEXT, b"what was there before")


@pytest.fixture
def kept_json(server: RunningServer) -> Kept:
    return Kept(server, JSON, b'["first",22,{"third":3}]')


def details(answer: Answer) -> str:
    detail = answer.json()["detail"]
    assert isinstance(detail, str)
    return detail


# What is not HTTP


GARBAGE = {
    "binary": b"\x00\x01\x02\x03\r\n\r\n",
    "prose": b"good morning\r\n\r\n",
    "a TLS greeting": bytes.fromhex("16030100a5010000a10303") + bytes(64),
    "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    "a version that is none": b"GET / HTTP/banana\r\nHost: a\r\n\r\n",
    "a method in small letters": b"get / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a method that is no word": b"G@T / HTTP/1.1\r\nHost: a\r\n\r\n",
    "a target that is no path": b"GET banana HTTP/1.1\r\nHost: a\r\n\r\n",
    "a space in the target": b"GET /v1/stream/a b HTTP/1.1\r\nHost: a\r\n\r\n",
    "NUL in the target": b"GET /v1/stream/a\0b HTTP/1.1\r\nHost: a\r\n\r\n",
    "bytes that are not ASCII in the target": b"GET /v1/stream/\xff HTTP/1.1\r\nHost: a\r\n\r\n",
    "a port that is none": b"GET http://a:99999999/v1/stream/a HTTP/1.1\r\nHost: a\r\n\r\n",
    "a host that is none": b"GET http://[::1/v1/stream/a HTTP/1.1\r\nHost: a\r\n\r\n",
}


@pytest.mark.parametrize("kind", GARBAGE)
def test_what_is_not_http_is_refused_and_the_connection_closed(
    server: RunningServer, kind: str
) -> None:
    with Raw(server.url) as raw:
        assert_clear_refusal(raw.ask(GARBAGE[kind]), 400)
        assert raw.is_closed_by_the_server()


MALFORMED_FIELDS: dict[str, list[str | bytes]] = {
    "no colon": ["nonsense"],
    "a space before the colon": ["X-Some : 1"],
    "no name": [": 1"],
    "a folded line": ["X-Some: 1\r\n 2"],
    "NUL": [b"X-Some: a\0b"],
    "a lone CR": [b"X-Some: a\rb"],
    "DEL": [b"X-Some: a\x7fb"],
    "a name that is not ASCII": [b"X-\xff: 1"],
    "two hosts": ["Host: other"],
    "two content types": [AS_TEXT, AS_TEXT],
    "a length that is no number": [AS_TEXT, "Content-Length: many"],
    "a negative length": [AS_TEXT, "Content-Length: -1"],
    "a length beyond all numbers": [AS_TEXT, f"Content-Length: {10**30}"],
    "two lengths": [AS_TEXT, "Content-Length: 1", "Content-Length: 2"],
    "a length and chunks": [AS_TEXT, "Content-Length: 1", CHUNKED],
    "an unknown transfer encoding": [AS_TEXT, "Transfer-Encoding: banana"],
}


@pytest.mark.parametrize("kind", MALFORMED_FIELDS)
def test_malformed_header_lines_are_refused(kept: Kept, kind: str) -> None:
    kept.refuse(head("POST", kept.target, *MALFORMED_FIELDS[kind]) + b"x", 400)


def test_a_request_without_a_host_is_refused(kept: Kept) -> None:
    kept.refuse(b"GET %b HTTP/1.1\r\n\r\n" % kept.target.encode(), 400)


@pytest.mark.parametrize("chunk", [b"banana\r\n", b"-1\r\nx\r\n", b"1\r\nxx\r\n0\r\n\r\n"])
def test_malformed_chunks_are_refused(kept: Kept, chunk: bytes) -> None:
    started = head("POST", kept.target, AS_TEXT, CHUNKED) + b"3\r\nabc\r\n"
    kept.refuse(started + chunk, 400)


def test_a_header_line_that_is_too_long_is_refused(kept: Kept) -> None:
    kept.refuse(head("GET", kept.target, f"X-Some: {'a' * 20_000}"), 400, 431)


def test_too_many_header_lines_are_refused(kept: Kept) -> None:
    kept.refuse(head("GET", kept.target, *(f"X-{n}: 1" for n in range(500))), 400, 431)


def test_a_request_line_that_is_too_long_is_refused(kept: Kept) -> None:
    kept.refuse(head("GET", f"{kept.target}?{'a' * 20_000}"), 400, 414)


def test_what_was_asked_before_the_garbage_is_answered(kept: Kept) -> None:
    with Raw(kept.url) as raw:
        assert raw.ask(head("GET", kept.target)).status == 200
        assert_clear_refusal(raw.ask(b"garbage\r\n\r\n"), 400)
        assert raw.is_closed_by_the_server()


# Headers of the protocol

ALL_OF_A_PRODUCER = {"Producer-Id": "p", "Producer-Epoch": "0", "Producer-Seq": "0"}


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("Stream-Seq", "1", "2"),
        ("Stream-Closed", "true", "false"),
        ("Stream-Closed", "false", "true"),
        ("Producer-Id", "p", "q"),
        ("Producer-Epoch", "0", "1"),
        ("Producer-Seq", "0", "1"),
    ],
)
def test_a_header_given_twice_is_refused(kept: Kept, name: str, first: str, second: str) -> None:
    others = ALL_OF_A_PRODUCER if name.startswith("Producer") else {}
    fields = [f"{key}: {value}" for key, value in others.items() if key != name]
    twice = [f"{name}: {first}", f"{name}: {second}"]
    answer = kept.refuse(whole("POST", kept.target, AS_TEXT, *fields, *twice, body=b"x"), 400)
    assert name in details(answer)


@pytest.mark.parametrize(
    ("name", "first", "second"),
    [
        ("Stream-TTL", "60", "61"),
        ("Stream-Expires-At", "2040-01-01T00:00:00Z", "2041-01-01T00:00:00Z"),
        ("Stream-Closed", "true", "false"),
    ],
)
def test_a_stream_with_a_header_given_twice_is_not_created(
    kept: Kept, name: str, first: str, second: str
) -> None:
    twice = [f"{name}: {first}", f"{name}: {second}"]
    kept.refuse(head("PUT", f"{kept.target}-new", AS_TEXT, *twice, EMPTY), 400)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


@pytest.mark.parametrize("name", ["Stream-Seq", "Producer-Id", "Producer-Seq", "Content-Type"])
def test_a_header_that_is_not_utf8_is_refused(kept: Kept, name: str) -> None:
    fields = {"Content-Type": TEXT} | (ALL_OF_A_PRODUCER if name.startswith("P") else {})
    lines = [f"{key}: {value}".encode() for key, value in fields.items() if key != name]
    broken = f"{name}: text/plain; a=".encode() + b"\xff\xfe"
    kept.refuse(whole("POST", kept.target, *lines, broken, body=b"x"), 400)


@pytest.mark.parametrize("name", ["Stream-TTL", "Stream-Expires-At", "Content-Type"])
def test_a_configuration_that_is_not_utf8_is_refused(kept: Kept, name: str) -> None:
    broken = name.encode() + b": text/plain; a=\xff\xfe"
    kept.refuse(head("PUT", f"{kept.target}-new", broken, EMPTY), 400)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


@pytest.mark.parametrize("name", ["User-Agent", "X-Request-Id", "If-None-Match", "Origin"])
def test_a_header_of_no_importance_may_be_anything(kept: Kept, name: str) -> None:
    answer = kept.ask(head("GET", kept.target, name.encode() + b": \xff\xfe"))
    assert answer.status == 200
    assert answer["X-Request-Id"]


@pytest.mark.parametrize(
    "ttl", ["-1", "+1", "1.5", "1e3", "0x10", "01", "sixty", "60s", "6 0", "", "\u0663", "9" * 30]
)
def test_a_ttl_is_a_whole_number(kept: Kept, ttl: str) -> None:
    answer = kept.refuse(
        head("PUT", f"{kept.target}-new", AS_TEXT, f"Stream-TTL: {ttl}", EMPTY), 400
    )
    assert "Stream-TTL" in details(answer)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


@pytest.mark.parametrize(
    "moment",
    [
        "tomorrow",
        "",
        "2040-01-01",
        "2040-01-01T00:00:00",
        "2040-13-01T00:00:00Z",
        "2040-02-30T00:00:00Z",
        "2040-01-01T25:00:00Z",
        "0000-01-01T00:00:00Z",
        "9999-12-31T23:59:59-23:59",
        "2040-01-01T00:00:00+24:00",
        "\uff12040-01-01T00:00:00Z",
    ],
)
def test_an_expiry_is_a_moment_of_the_calendar(kept: Kept, moment: str) -> None:
    answer = kept.refuse(
        head("PUT", f"{kept.target}-new", AS_TEXT, f"Stream-Expires-At: {moment}", EMPTY), 400
    )
    assert "Stream-Expires-At" in details(answer)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


def test_a_stream_has_one_kind_of_expiry(kept: Kept) -> None:
    both = ["Stream-TTL: 60", "Stream-Expires-At: 2040-01-01T00:00:00Z"]
    answer = kept.refuse(head("PUT", f"{kept.target}-new", AS_TEXT, *both, EMPTY), 400)
    assert "not both" in details(answer)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


@pytest.mark.parametrize(
    "given",
    [
        {"Producer-Id": "p"},
        {"Producer-Epoch": "0"},
        {"Producer-Seq": "0"},
        {"Producer-Id": "p", "Producer-Epoch": "0"},
        {"Producer-Id": "p", "Producer-Seq": "0"},
        {"Producer-Epoch": "0", "Producer-Seq": "0"},
    ],
)
def test_a_producer_needs_all_its_headers(kept: Kept, given: dict[str, str]) -> None:
    fields = [f"{name}: {value}" for name, value in given.items()]
    answer = kept.refuse(whole("POST", kept.target, AS_TEXT, *fields, body=b"x"), 400)
    assert all(name in details(answer) for name in ALL_OF_A_PRODUCER)


@pytest.mark.parametrize("name", ["Producer-Epoch", "Producer-Seq"])
@pytest.mark.parametrize("text", ["-1", "+1", "1.5", "1e3", "0x1", "one", "", "\u0663", str(2**53)])
def test_a_producer_counts_in_whole_numbers(kept: Kept, name: str, text: str) -> None:
    fields = [f"{key}: {value}" for key, value in (ALL_OF_A_PRODUCER | {name: text}).items()]
    answer = kept.refuse(whole("POST", kept.target, AS_TEXT, *fields, body=b"x"), 400)
    assert name in details(answer)


def test_a_producer_has_a_name(kept: Kept) -> None:
    fields = [f"{key}: {value}" for key, value in (ALL_OF_A_PRODUCER | {"Producer-Id": ""}).items()]
    kept.refuse(whole("POST", kept.target, AS_TEXT, *fields, body=b"x"), 400)


def test_an_empty_sequence_is_refused(kept: Kept) -> None:
    kept.refuse(whole("POST", kept.target, AS_TEXT, "Stream-Seq: ", body=b"x"), 400)


# Addresses and queries


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../other",
        "a/../../etc/passwd",
        "%2e%2e",
        "%2E%2e/other",
        "..%2fother",
        "a/%2e%2e/b",
        ".",
        "a/./b",
        "%2e/b",
        "a%00b",
        "%00",
        "%ff",
        "a%c3b",
        "%ed%a0%80",
        "a" * 1025,
        "%c3%a4" * 513,
        "",
    ],
)
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_what_cannot_be_a_name_is_refused(kept: Kept, method: str, path: str) -> None:
    request = whole(method, f"/v1/stream/{path}", AS_TEXT, body=b"x")
    kept.refuse(request, 400, method=method)


@pytest.mark.parametrize("path", ["__ds", "__ds/anything", "%5f_ds/anything", "__d%73%2fanything"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "POST", "DELETE"])
def test_reserved_names_are_refused(kept: Kept, method: str, path: str) -> None:
    request = whole(method, f"/v1/stream/{path}", AS_TEXT, body=b"x")
    kept.refuse(request, 400, method=method)


@pytest.mark.parametrize(
    "target",
    [
        "/",
        "//",
        "/v1",
        "/v1/stream",
        "/v1//stream/a",
        "//v1/stream/a",
        "/v1/../v1/stream/a",
        "/etc/passwd",
        "/metrics/more",
        "/V1/stream/a",
        "/v1%2fstream/a",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_an_address_where_nothing_lives_is_not_found(kept: Kept, method: str, target: str) -> None:
    answer = kept.refuse(whole(method, target, AS_TEXT, body=b"x"), 404)
    assert "/v1/stream/" in details(answer)


def test_slashes_make_different_names(kept: Kept) -> None:
    name = kept.target.removeprefix("/v1/stream/")
    for target in [f"/v1/stream//{name}", f"{kept.target}/", f"/v1/stream/{name}//"]:
        assert kept.ask(head("GET", target)).status == 404
    kept.assert_unchanged()


def test_the_way_an_address_is_spelt_makes_no_other_stream(kept: Kept) -> None:
    """Unreserved characters mean the same with and without percent signs."""
    spelt = kept.target.replace("stream", "strea%6d").replace("kept", "%6Bept")
    assert kept.ask(head("GET", spelt)).body == kept.ask(head("GET", kept.target)).body
    assert kept.ask(head("GET", f"/v1/stream/{kept.target}")).status == 404


def test_a_name_may_have_a_line_break(kept: Kept) -> None:
    target = f"{kept.target}%0Asecond"
    assert kept.ask(whole("PUT", target, AS_TEXT, body=b"x")).status == 201
    assert kept.ask(head("GET", target)).body == b"x"


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("offset=", "offset"),
        ("offset", "offset"),
        ("offset=banana", "offset"),
        ("offset=0", "offset"),
        ("offset=-2", "offset"),
        ("offset=-1%0A", "offset"),
        ("offset=%00", "offset"),
        ("offset=%ff", "offset"),
        ("offset=NOW", "offset"),
        ("offset=%D9%A0", "offset"),
        ("offset=9999999999999999_9999999999999999", "offset"),
        ("offset=" + "9" * 5000, "offset"),
        ("offset=-1&offset=-1", "offset"),
        ("offset=-1&offset=now", "offset"),
        ("offset=-1&%6Fffset=-1", "offset"),
        ("offset=-1&live=banana", "live"),
        ("offset=-1&live=", "live"),
        ("offset=-1&live=SSE", "live"),
        ("offset=-1&live=sse&live=long-poll", "live"),
        ("live=sse", "offset"),
        ("live=long-poll", "offset"),
        ("offset=-1&cursor=1&cursor=2", "cursor"),
    ],
)
def test_a_malformed_query_is_refused(kept: Kept, query: str, word: str) -> None:
    answer = kept.refuse(head("GET", f"{kept.target}?{query}"), 400)
    assert word in details(answer)


def test_an_offset_inside_a_json_message_is_refused(kept_json: Kept) -> None:
    messages = [b'"first"', b"22", b'{"third":3}']
    ends = [sum(len(message) + 1 for message in messages[:n]) for n in range(4)]
    for position in range(ends[-1] + 1):
        request = head("GET", f"{kept_json.target}?offset={kept_json.token(position)}")
        if position in ends:
            rest = b",".join(messages[ends.index(position) :])
            assert kept_json.ask(request).body == b"[" + rest + b"]"
        else:
            assert "inside a message" in details(kept_json.refuse(request, 400))


def test_an_offset_beyond_the_end_is_refused(kept: Kept) -> None:
    request = head("GET", f"{kept.target}?offset={kept.token(1000)}")
    assert "beyond the end" in details(kept.refuse(request, 400))


def test_an_offset_of_another_stream_is_gone(kept: Kept, kept_json: Kept) -> None:
    answer = kept.refuse(head("GET", f"{kept.target}?offset={kept_json.token(0)}"), 410)
    assert answer["Stream-Next-Offset"] == kept.token(0)


# Methods and versions


@pytest.mark.parametrize("method", ["PATCH", "TRACE", "PROPFIND", "LINK", "M-SEARCH"])
def test_a_method_that_streams_do_not_take_is_named_with_those_they_do(
    kept: Kept, method: str
) -> None:
    answer = kept.refuse(whole(method, kept.target, AS_TEXT, body=b"x"), 405)
    assert answer["Allow"] is not None
    allowed = {allowed.strip() for allowed in answer["Allow"].split(",")}
    assert {"GET", "HEAD", "PUT", "POST", "DELETE"} <= allowed
    assert method not in allowed


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
@pytest.mark.parametrize("target", ["/metrics", "/healthz", "/readyz"])
def test_a_method_that_only_streams_take_is_refused_elsewhere(
    kept: Kept, method: str, target: str
) -> None:
    answer = kept.refuse(whole(method, target, AS_TEXT, body=b"x"), 405)
    assert answer["Allow"] is not None
    assert {"GET", "HEAD"} <= {allowed.strip() for allowed in answer["Allow"].split(",")}


def test_a_method_that_nobody_knows_is_refused(kept: Kept) -> None:
    kept.refuse(head("BREW", kept.target), 400, 405, 501)


def test_an_upgrade_is_declined_by_an_ordinary_answer(kept: Kept) -> None:
    fields = ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13"]
    assert kept.ask(head("GET", kept.target, *fields)).status == 200


def test_an_old_client_follows_without_chunks(kept: Kept) -> None:
    """HTTP/1.0 has none; some proxies still speak it to the servers behind them."""
    target = f"{kept.target}-whole"
    assert kept.ask(whole("PUT", target, AS_TEXT, "Stream-Closed: true", body=b"x")).status == 201
    with Raw(kept.url) as raw:
        raw.send(b"GET %b?offset=-1&live=sse HTTP/1.0\r\n\r\n" % target.encode())
        assert raw.beginning()["Transfer-Encoding"] is None
        assert raw.rest().startswith(b"event: data\n")


# Bodies


def test_an_empty_append_is_refused(kept: Kept) -> None:
    assert "empty" in details(kept.refuse(head("POST", kept.target, AS_TEXT, EMPTY), 400))
    kept.refuse(head("POST", kept.target, AS_TEXT, CHUNKED) + b"0\r\n\r\n", 400)


def test_an_append_without_a_content_type_is_refused(kept: Kept) -> None:
    assert "Content-Type" in details(kept.refuse(whole("POST", kept.target, body=b"x"), 400))


def test_an_append_with_another_content_type_is_a_conflict(kept: Kept) -> None:
    answer = kept.refuse(whole("POST", kept.target, AS_JSON, body=b"1"), 409)
    assert TEXT in details(answer)


@pytest.mark.parametrize("content_type", ["", "banana", "text/", "/plain", "text plain", "a/b c"])
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_content_type_is_a_media_type(kept: Kept, method: str, content_type: str) -> None:
    target = f"{kept.target}-new" if method == "PUT" else kept.target
    kept.refuse(whole(method, target, f"Content-Type: {content_type}", body=b"x"), 400)
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


BROKEN_JSON = {
    "nothing but space": b" \r\n\t",
    "an open object": b'{"a":1',
    "an open array": b"[1,",
    "an open string": b'"a',
    "two values": b"1 2",
    "too many brackets": b"[1]]",
    "a comma too many": b"[1,]",
    "a word": b"banana",
    "NaN": b"NaN",
    "a leading zero": b"01",
    "single quotes": b"'a'",
    "a comment": b"1 // one",
    "a line break in a string": b'"a\nb"',
    "NUL": b"\0",
    "NUL after a value": b"1\0",
    "a byte order mark": b"\xef\xbb\xbf1",
    "bytes that are not UTF-8": b'"\xff"',
    "UTF-16": '"a"'.encode("utf-16"),
    "one bad message in a batch": b'[1,2,{"a":}]',
    "deep arrays": b"[" * 30_000 + b"]" * 30_000,
    "deep objects": b'{"a":' * 10_000 + b"1" + b"}" * 10_000,
    "deep arrays that never end": b"[" * 60_000,
}


@pytest.mark.parametrize("kind", BROKEN_JSON)
def test_broken_json_is_refused(kept_json: Kept, kind: str) -> None:
    kept_json.refuse(whole("POST", kept_json.target, AS_JSON, body=BROKEN_JSON[kind]), 400)


@pytest.mark.parametrize("kind", BROKEN_JSON)
def test_a_stream_is_not_created_with_broken_json(kept_json: Kept, kind: str) -> None:
    target = f"{kept_json.target}-new"
    kept_json.refuse(whole("PUT", target, AS_JSON, body=BROKEN_JSON[kind]), 400)
    assert kept_json.ask(head("GET", target)).status == 404


def test_an_empty_batch_is_refused(kept_json: Kept) -> None:
    kept_json.refuse(whole("POST", kept_json.target, AS_JSON, body=b" [ ] "), 400)


LONG = bytes(range(256)) * 20
BADLY_ENCODED = {
    "not compressed": ("gzip", b"hello"),
    "not deflated": ("deflate", b"hello"),
    "cut off": ("gzip", gzip.compress(LONG)[:100]),
    "cut off before the checksum": ("gzip", gzip.compress(LONG)[:-8]),
    "a wrong checksum": ("gzip", gzip.compress(LONG)[:-8] + bytes(8)),
    "deflated and cut off": ("deflate", zlib.compress(LONG)[:-6]),
    "something after the end": ("gzip", gzip.compress(LONG) + b"garbage"),
    "an encoding nobody knows": ("banana", b"hello"),
    "twice": ("gzip, gzip", gzip.compress(gzip.compress(LONG))),
}


@pytest.mark.parametrize("kind", BADLY_ENCODED)
def test_a_body_that_cannot_be_decoded_is_refused(kept: Kept, kind: str) -> None:
    encoding, body = BADLY_ENCODED[kind]
    fields = [AS_TEXT, f"Content-Encoding: {encoding}"]
    kept.refuse(whole("POST", kept.target, *fields, body=body), 400, 415)


def test_a_body_that_unpacks_to_more_than_is_allowed_is_refused(kept: Kept) -> None:
    bomb = gzip.compress(bytes(10_000_000))
    assert len(bomb) < LARGEST_BODY
    fields = [AS_TEXT, "Content-Encoding: gzip"]
    kept.refuse(whole("POST", kept.target, *fields, body=bomb), 413, 415)


# Too much


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize("length", [LARGEST_BODY + 1, 10**15])
def test_a_body_that_says_it_is_too_large_is_refused_before_it_is_sent(
    kept: Kept, method: str, length: int
) -> None:
    target = f"{kept.target}-new" if method == "PUT" else kept.target
    request = head(method, target, AS_TEXT, f"Content-Length: {length}")
    assert str(LARGEST_BODY) in details(kept.refuse(request, 413))
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


def test_chunks_are_cut_off_at_the_limit(kept: Kept) -> None:
    whole_body = 1024
    with Raw(kept.url) as raw:
        raw.send(head("POST", kept.target, AS_TEXT, CHUNKED))
        piece = b"x" * LARGEST_BODY
        pieces = repeat(b"%x\r\n%b\r\n" % (len(piece), piece), whole_body)
        sent = raw.send_until_answered(pieces)
        assert sent < whole_body * LARGEST_BODY
        assert_clear_refusal(raw.answer(), 413)
    kept.assert_unchanged()


def test_a_body_of_the_largest_size_is_taken(kept: Kept) -> None:
    body = b"x" * LARGEST_BODY
    assert kept.ask(whole("POST", kept.target, AS_TEXT, body=body)).status == 204


def test_an_append_beyond_the_largest_stream_is_refused(kept: Kept) -> None:
    body = b"x" * LARGEST_BODY
    assert kept.ask(whole("POST", kept.target, AS_TEXT, body=body)).status == 204
    filled = kept.ask(head("GET", kept.target)).body
    answer = kept.ask(whole("POST", kept.target, AS_TEXT, body=body))
    assert_clear_refusal(answer, 413)
    assert kept.ask(head("GET", kept.target)).body == filled
    room = LARGEST_STREAM - len(filled)
    assert kept.ask(whole("POST", kept.target, AS_TEXT, body=b"x" * room)).status == 204


def test_a_client_that_waits_for_leave_to_send_gets_it(kept: Kept) -> None:
    with Raw(kept.url) as raw:
        raw.send(head("POST", kept.target, AS_TEXT, "Expect: 100-continue", "Content-Length: 4"))
        assert raw.interim_or_final().status == 100
        assert raw.ask(b"more").status == 204
    assert kept.ask(head("GET", kept.target)).body.endswith(b"more")


def test_a_client_that_waits_for_leave_to_send_too_much_is_refused_at_once(kept: Kept) -> None:
    length = f"Content-Length: {LARGEST_BODY + 1}"
    with Raw(kept.url) as raw:
        raw.send(head("POST", kept.target, AS_TEXT, "Expect: 100-continue", length))
        assert_clear_refusal(raw.interim_or_final(), 413)
    kept.assert_unchanged()


def test_an_expectation_that_cannot_be_met_is_refused(kept: Kept) -> None:
    kept.refuse(whole("POST", kept.target, AS_TEXT, "Expect: banana", body=b"x"), 417)


# Bodies that do not arrive

UNFINISHED: dict[str, Callable[[str, str], bytes]] = {
    "a length": lambda method, target: (
        head(method, target, AS_TEXT, "Content-Length: 10") + b"half"
    ),
    "a length and nothing else": lambda method, target: head(
        method, target, AS_TEXT, "Content-Length: 10"
    ),
    "whole chunks": lambda method, target: (
        head(method, target, AS_TEXT, CHUNKED) + b"4\r\nhalf\r\n"
    ),
    "half a chunk": lambda method, target: head(method, target, AS_TEXT, CHUNKED) + b"a\r\nhalf",
    "a producer": lambda method, target: (
        head(
            method,
            target,
            AS_TEXT,
            *(f"{name}: {value}" for name, value in ALL_OF_A_PRODUCER.items()),
            "Content-Length: 10",
        )
        + b"half"
    ),
    "a closing request": lambda method, target: (
        head(method, target, AS_TEXT, "Stream-Closed: true", "Content-Length: 10") + b"half"
    ),
}


@pytest.mark.parametrize("kind", UNFINISHED)
@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_stops_half_way_changes_nothing(kept: Kept, method: str, kind: str) -> None:
    target = f"{kept.target}-new" if method == "PUT" else kept.target
    with Raw(kept.url) as raw:
        raw.send(UNFINISHED[kind](method, target))
        raw.end_of_sending()
        assert_ended_without_success(raw)
    kept.assert_unchanged()
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


def assert_ended_without_success(raw: Raw) -> None:
    try:
        assert_clear_refusal(raw.answer(), 400, 408)
    except Closed:
        return
    assert raw.is_closed_by_the_server()


def test_a_producer_whose_body_stopped_half_way_can_send_it_again(kept: Kept) -> None:
    with Raw(kept.url) as raw:
        raw.send(UNFINISHED["a producer"]("POST", kept.target))
        raw.end_of_sending()
        assert_ended_without_success(raw)
    fields = [f"{name}: {value}" for name, value in ALL_OF_A_PRODUCER.items()]
    assert kept.ask(whole("POST", kept.target, AS_TEXT, *fields, body=b"again")).status == 200
    assert kept.ask(head("GET", kept.target)).body.endswith(b"beforeagain")


@pytest.mark.parametrize("method", ["PUT", "POST"])
def test_a_body_that_does_not_come_in_time_changes_nothing(kept: Kept, method: str) -> None:
    target = f"{kept.target}-new" if method == "PUT" else kept.target
    with ExitStack() as stack:
        waiting = [stack.enter_context(Raw(kept.url)) for _ in UNFINISHED]
        for raw, unfinished in zip(waiting, UNFINISHED.values(), strict=True):
            raw.send(unfinished(method, target))
        for raw in waiting:
            assert_clear_refusal(raw.answer(), 408)
    kept.assert_unchanged()
    assert kept.ask(head("GET", f"{kept.target}-new")).status == 404


def test_a_body_that_trickles_in_is_not_waited_for(kept: Kept) -> None:
    with Raw(kept.url) as raw:
        raw.send(head("POST", kept.target, AS_TEXT, "Content-Length: 1000"))
        sent = raw.send_until_answered(repeat(b"x", 999), pause_secs=BODY_TIMEOUT_SECS / 20)
        assert 1 < sent < 999
        assert_clear_refusal(raw.answer(), 408)
    kept.assert_unchanged()


@pytest.mark.parametrize("part", [b"", b"GET", b"GET /v1/stream/a HTTP/1.1\r\nHos"])
def test_a_request_that_stops_half_way_is_closed(server: RunningServer, part: bytes) -> None:
    with Raw(server.url) as raw:
        raw.send(part)
        raw.end_of_sending()
        assert_ended_without_success(raw)


# When the server cannot


def test_a_full_hot_tier_refuses_appends_until_there_is_room_again() -> None:
    """The object store is out of order, so that nothing makes room by itself."""
    much = b"x" * 500_000
    with RunningServer(workers=1, env={"DS_LIMITS__MAX_HOT_BYTES": "6000000"}) as server:
        objects, aside = server.data_dir / "objects", server.data_dir / "aside"
        objects.rename(aside)
        objects.write_text("not a directory")
        kept = Kept(server, TEXT, b"what was there before")
        filler = Kept(server, TEXT, b"x")

        def fill() -> Answer | None:
            answer = kept.ask(whole("POST", filler.target, AS_TEXT, body=much))
            return answer if answer.status != 204 else None

        full = wait_until(fill, what="the hot tier to be full")
        assert_clear_refusal(full, 503)
        assert int(full["Retry-After"] or "") >= 1
        with server.redis() as redis:
            redis.set("ballast", bytes(1_000_000))
        one_byte = whole("POST", filler.target, AS_TEXT, body=b"x")
        wait_until(lambda: kept.ask(one_byte).status == 503, what="no room for a byte")
        again = kept.refuse(whole("POST", kept.target, AS_TEXT, body=b"x"), 503)
        assert int(again["Retry-After"] or "") >= 1
        kept.refuse(whole("PUT", f"{kept.target}-new", AS_TEXT, body=b"x"), 503)
        assert kept.ask(head("GET", f"{kept.target}-new")).status == 404
        assert kept.ask(head("HEAD", filler.target), "HEAD").status == 200
        with server.redis() as redis:
            redis.delete("ballast")
        objects.unlink()
        aside.rename(objects)

        def append() -> bool:
            return kept.ask(whole("POST", kept.target, AS_TEXT, body=b", more")).status == 204

        wait_until(append, what="room for appends")
        assert kept.ask(head("GET", kept.target)).body == b"what was there before, more"


async def test_a_mistake_of_the_server_is_a_problem_too(caplog: pytest.LogCaptureFixture) -> None:
    async def stumble(request: web.Request) -> web.Response:
        raise RuntimeError("a detail that is nobody's business")

    request = make_mocked_request("GET", "/", writer=Mock(output_size=0))
    response = await explain(request, stumble)
    clothe(request, response)
    assert isinstance(response, web.Response)
    assert isinstance(response.body, bytes)
    answer = Answer(response.status, CIMultiDictProxy(response.headers), response.body)
    assert_clear_refusal(answer, 500)
    assert b"nobody's business" not in answer.body
    assert [vars(record).get("request_id") for record in caplog.records] == [answer["X-Request-Id"]]
