"""Whatever arrives, the server answers in HTTP or hangs up, and goes on."""

import contextlib
import itertools
import json
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.raw import Answer, Closed, Raw, assert_clear_refusal, head, whole
from support.server import RunningServer

EXAMPLES = os.environ.get("DS_PROPERTY_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 150),
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
LARGEST_BODY = 4096
REFUSALS = (*range(400, 500), 501, 503, 505)
BYSTANDERS = ("/v1/stream/bystander", "/ds/bystanding/bystander")
BYSTANDING = b"[1,2,3]"
BUCKET = "/ds/fuzz"
FOLDED = f"{BUCKET}/folded"
Lines = st.SearchStrategy[bytes]
Request = tuple[str, bytes]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """No request can hold it up for long, and streams that nobody touches stay as they were."""
    env = {
        "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "0.05",
        "DS_LIMITS__MAX_BODY_BYTES": str(LARGEST_BODY),
        "DS_LIMITS__BODY_TIMEOUT_SECS": "0.2",
    }
    with RunningServer(workers=2, long_poll_timeout_secs=0.05, env=env) as running:
        workers = running.worker_pids()
        with Raw(running.url) as raw:
            for bucket in (BUCKET, "/ds/bystanding"):
                assert raw.ask(whole("PUT", bucket, body=b"")).status == 201
            for stream in (*BYSTANDERS, FOLDED):
                lines = "Content-Type: application/json"
                created = raw.ask(whole("PUT", stream, lines, body=BYSTANDING))
                assert created.status == 201
            snapshot = f"{FOLDED}/snapshot/{created.next_offset}"
            assert raw.ask(whole("PUT", snapshot, body=b"6")).status == 204
        yield running
        with Raw(running.url) as raw:
            for stream in BYSTANDERS:
                assert raw.ask(head("GET", stream)).body == BYSTANDING
            listed = raw.ask(head("GET", "/ds/bystanding/streams")).json()
            assert [entry["stream_id"] for entry in listed["streams"]] == ["bystander"]
        assert running.worker_pids() == workers
        assert "Traceback" not in running.log()


def one_of(*values: str) -> st.SearchStrategy[str]:
    return st.sampled_from(values)


def field(names: st.SearchStrategy[str], values: st.SearchStrategy[str]) -> Lines:
    return st.builds("{}: {}".format, names, values).map(lambda line: line.encode(errors="replace"))


METHODS = one_of("POST", "GET", "PUT", "HEAD", "OPTIONS", "DELETE", "PATCH")
ODD_PATHS = st.text(st.sampled_from("ab/.%20CFfé~;:@&=+$,!*'()[]{}|\\^`<>\"#?-_"), max_size=40)
RESOURCES = one_of("/snapshot", "/bootstrap", "/snapshot/-1", "/snapshot/now", "/snapshot/", "/b")
SNAPSHOTS = st.builds(
    "/snapshot/{}".format, st.builds("{:016d}_{:016d}".format, st.integers(), st.integers(0, 9))
)
ROOTS = one_of("/ds/", "/%64s/", "/d%73/", "/DS/", "//ds/", "/ds%2F", "/%2564s/", "/ds//")
IN_A_BUCKET = st.one_of(
    st.builds("{}{}".format, ROOTS, ODD_PATHS),
    st.builds("{}fuzz/{}".format, ROOTS, ODD_PATHS),
    st.builds("{}nosuchbucket/{}".format, ROOTS, ODD_PATHS),
    st.builds("{}fuzz/{}{}".format, ROOTS, one_of("folded", "a"), RESOURCES | SNAPSHOTS),
    ODD_PATHS.map((FOLDED + "/snapshot/{}").format),
    one_of("/ds", "/ds/", BUCKET, f"{BUCKET}/", f"{BUCKET}/streams", f"{BUCKET}/%73treams"),
    one_of(f"{BUCKET}/streams/snapshot", f"{BUCKET}/streams/bootstrap", "/ds/x", "/ds/fuz%7A/a"),
)
SPELLABLE = st.text(st.sampled_from("ab/.~_-"), max_size=20) | st.builds(
    "{}{}".format, one_of("fuzz", "fuzz/folded", "folded", "bystander"), RESOURCES | st.just("")
)
TARGETS = st.one_of(
    ODD_PATHS.map("/v1/stream/{}".format),
    ODD_PATHS.map("/{}".format),
    IN_A_BUCKET,
    one_of("/metrics", "/healthz", "/v1/strea%6d/a", "//a/b", "/v1/stream", "*", "a:1"),
    one_of(
        "/v1/stream/__registry__", "/v1/stream/__ds/x", "/v1/stream/a%0Ab", "http://b/v1/stream/a"
    ),
)

NUMBERS = one_of("0", "1", "2") | st.integers().map(str) | one_of("-0", "1e3", "\u0663", "9" * 25)
OFFSETS = one_of("-1", "now", "0", "", f"{0:016d}_{0:016d}", f"{1:016d}_{9:016d}")
ODD_QUERIES = st.lists(one_of("offset", "live", "cursor", "=", "&", "-1", "%00", "%ff", "%", "+"))
QUERIES = st.one_of(
    st.just(""),
    st.builds("?offset={}".format, OFFSETS),
    st.builds("?offset={}&cursor={}".format, OFFSETS, st.integers()),
    st.builds("?offset=now&live={}&cursor={}".format, one_of("sse", "long-poll"), st.integers()),
    ODD_QUERIES.map(lambda parts: "?" + "".join(parts)),
    st.builds("?prefix={}&after={}".format, one_of("", "f", "%ff", "%00"), one_of("", "a", "%C3")),
    NUMBERS.map("?limit={}".format),
)

ODD_TEXTS = st.text(st.characters(max_codepoint=0x2FF, exclude_characters="\r\n"), max_size=20)
MOMENTS = st.datetimes().map("{:%Y-%m-%dT%H:%M:%SZ}".format) | one_of(
    "2040-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59.9-23:59"
)
PRODUCERS = st.builds(
    "Producer-Id: {}\r\nProducer-Epoch: {}\r\nProducer-Seq: {}".format,
    one_of("p", "q") | ODD_TEXTS,
    NUMBERS,
    NUMBERS,
).map(lambda lines: lines.encode(errors="replace"))
LINES = st.one_of(
    PRODUCERS,
    field(one_of("Stream-Seq"), NUMBERS | ODD_TEXTS),
    field(one_of("Stream-TTL"), NUMBERS),
    field(one_of("Stream-Expires-At"), MOMENTS),
    field(one_of("Stream-Closed"), one_of("true", "TRUE", "false", "1", "")),
    field(one_of("Producer-Id", "If-None-Match", "Origin", "Range", "X-Request-Id"), ODD_TEXTS),
    field(one_of("Range"), st.builds("{}={}-{}".format, one_of("bytes", "x"), NUMBERS, NUMBERS)),
    field(one_of("Stream-Forked-From"), ODD_PATHS.map("/ds/fuzz/{}".format) | IN_A_BUCKET),
    field(one_of("Content-Encoding"), one_of("gzip", "deflate", "br", "x", "identity")),
    field(one_of("Expect"), one_of("100-continue", "x")),
    field(one_of("Connection", "Upgrade"), one_of("close", "upgrade", "websocket", "h2c")),
)
ODD_LINES = st.binary(max_size=30)

TYPES = one_of("application/json", "text/plain", "text/plain; charset=é", "application/x")
ODD_TYPES = one_of("a/b;;", "x", "", "text/\u0663")
VALUES = st.recursive(st.integers() | st.text(max_size=5), lambda v: st.lists(v, max_size=3))
BODIES = st.one_of(
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.binary(max_size=60),
    st.text(st.sampled_from('[]{},:"\\u0d8e1.-truefalsn \n'), max_size=40).map(str.encode),
    st.integers(0, 2 * LARGEST_BODY).map(lambda size: b"[" * size),
)
names = itertools.count()


@st.composite
def conversations(draw: st.DrawFn) -> list[Request]:
    """Requests to one new stream and what belongs to it, most of which agree with its type."""
    root = draw(one_of("/v1/stream", BUCKET))
    target = f"{root}/fuzz-{next(names)}"
    own_type = draw(TYPES)
    requests = [("PUT", whole("PUT", target, f"Content-Type: {own_type}", body=b""))]
    for _ in range(draw(st.integers(1, 6))):
        method = draw(METHODS)
        content_type = draw(st.just(own_type) | TYPES | ODD_TYPES)
        lines = [f"Content-Type: {content_type}".encode(), *draw(st.lists(LINES, max_size=2))]
        resource = draw(st.just("") | RESOURCES | SNAPSHOTS) if root == BUCKET else ""
        request = whole(method, target + resource + draw(QUERIES), *lines, body=draw(BODIES))
        requests.append((method, request))
    return requests


@SETTINGS
@given(conversations())
def test_whatever_is_asked_of_a_stream_is_answered(
    server: RunningServer, conversation: list[Request]
) -> None:
    left = conversation
    while left:
        left = left[answered_on_one_connection(server, left) :]


@SETTINGS
@given(METHODS, TARGETS, QUERIES, st.lists(LINES | ODD_LINES, max_size=6), BODIES)
@example("POST", "/v1/stream/a", "", [b"Content-Type: text/plain", b"Content-Encoding: gzip"], b"x")
@example("POST", "/v1/stream/a", "", [b"Content-Type: text/plain", b"Expect: x"], b"x")
@example("GET", "/v1/stream/a", "", [b"Expect: \x80"], b"")
@example("GET", f"{FOLDED}/bootstrap", "", [b"Expect: \x80"], b"")
@example("GET", "/nowhere", "", [b"Expect: \x80"], b"")
@example("PATCH", "/ds/fuzz", "", [b"Expect: \x80"], b"")
@example("PUT", "/v1/stream/a", "", [b"Stream-Expires-At: 0001-01-01T00:00:00+23:59"], b"")
@example("PUT", "/v1/stream/a%0Ab", "", [b"Content-Type: text/plain; a=\xff"], b"")
@example("POST", "/v1/stream/a", "", [b"Content-Type: application/json"], b"[" * LARGEST_BODY)
def test_any_address_with_any_header_lines_is_answered(
    server: RunningServer, method: str, target: str, query: str, lines: list[bytes], body: bytes
) -> None:
    request = whole(method, target + query, *lines, body=body)
    assert_answered_or_closed(server, request, method)


@SETTINGS
@given(one_of("/v1/stream/", "/ds/", "/ds/fuzz/"), SPELLABLE, QUERIES, st.data())
@example("/ds/", "fuzz/folded/bootstrap", "", None)
@example("/ds/", "fuzz/streams", "", None)
@example("/v1/stream/", "bystander", "", None)
def test_an_address_is_answered_alike_however_it_is_spelled(
    server: RunningServer, root: str, path: str, query: str, data: st.DataObject | None
) -> None:
    letters = [at for at, letter in enumerate(root + path) if letter.isalnum()]
    chosen = set(data.draw(st.lists(st.sampled_from(letters)))) if data else letters
    spelled = "".join(
        f"%{ord(letter):02X}" if at in chosen else letter for at, letter in enumerate(root + path)
    )
    assert kind_of_answer(server, spelled + query) == kind_of_answer(server, root + path + query)


@SETTINGS
@given(st.binary(max_size=200))
@example(b"GET /v1/stream/a\r\n\r\n")
@example(b"GET /v1/stream/a HTTP/0.9\r\nHost: a\r\n\r\n")
@example(b"PUT /v1/stream/a HTTP/1.1\r\nHost: \xff\r\nContent-Length: 0\r\n\r\n")
@example(b"\r\n" * 100)
@example(b"\0" * 100)
def test_any_bytes_are_answered_or_closed(server: RunningServer, data: bytes) -> None:
    assert_answered_or_closed(server, data, "GET")


@SETTINGS
@given(METHODS, st.lists(LINES, max_size=4), BODIES, st.data())
def test_a_request_with_bytes_changed_or_lost_is_answered_or_closed(
    server: RunningServer, method: str, lines: list[bytes], body: bytes, data: st.DataObject
) -> None:
    request = bytearray(whole(method, "/v1/stream/a?offset=-1", *lines, body=body))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(request) - 1))
        request[at : at + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=2))
    assert_answered_or_closed(server, bytes(request), method)


def kind_of_answer(server: RunningServer, target: str) -> tuple[int, str]:
    with Raw(server.url) as raw:
        answer = raw.ask(head("GET", target))
    assert_in_order(answer, "GET")
    return answer.status, (answer["Content-Type"] or "").partition(";")[0]


def answered_on_one_connection(server: RunningServer, requests: list[Request]) -> int:
    """How many were answered before the server closed; at least the first.

    A request that cannot be parsed gets a body even if it was meant to be a HEAD.
    """
    with Raw(server.url) as raw:
        for number, (method, request) in enumerate(requests):
            try:
                raw.send(request)
                answer = raw.answer(method)
            except ConnectionError:
                assert number > 0, request
                return number
            assert_in_order(answer, method)
            if method == "HEAD" and answer.status == 400:
                return number + 1
    return len(requests)


def assert_answered_or_closed(server: RunningServer, data: bytes, method: str) -> None:
    """A request that the server takes for unfinished is ended by this side."""
    with Raw(server.url) as raw:
        raw.send(data)
        if not raw.has_answer(within=0.02):
            raw.end_of_sending()
        with contextlib.suppress(Closed):
            assert_in_order(raw.answer(method), method)


def assert_in_order(answer: Answer, method: str) -> None:
    if answer.status >= 400:
        assert_clear_refusal(answer, *REFUSALS, method=method)
