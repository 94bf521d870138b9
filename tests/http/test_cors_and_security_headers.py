"""What browsers need on every answer, whatever else it says."""

from collections.abc import Awaitable, Callable

import aiohttp
import pytest
from support.client import JSON, TEXT, Answer, NewStream, Stream, assert_problem
from support.server import RunningServer

ORIGIN = "https://app.example"

SENT = [
    "Content-Type",
    "If-None-Match",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-Closed",
    "Stream-Seq",
    "Producer-Id",
    "Producer-Epoch",
    "Producer-Seq",
]
RECEIVED = [
    "Location",
    "ETag",
    "Stream-Next-Offset",
    "Stream-Cursor",
    "Stream-Up-To-Date",
    "Stream-Closed",
    "Stream-TTL",
    "Stream-Expires-At",
    "Stream-SSE-Data-Encoding",
    "Producer-Epoch",
    "Producer-Seq",
    "Producer-Expected-Seq",
    "Producer-Received-Seq",
]

EVERY_KIND: dict[str, Callable[[Stream], Awaitable[Answer]]] = {
    "create": lambda stream: Stream(stream.http, stream.url + "-new").create(),
    "create again": lambda stream: stream.create(),
    "create differently": lambda stream: stream.create(content_type=TEXT),
    "append": lambda stream: stream.append(b"2"),
    "append nonsense": lambda stream: stream.append(b"nonsense"),
    "append as another": lambda stream: stream.append(b"2", content_type=TEXT),
    "producer": lambda stream: stream.produce(b"2", "p", 0, 0),
    "producer gap": lambda stream: stream.produce(b"2", "p", 0, 9),
    "read": lambda stream: stream.read(),
    "read again": lambda stream: stream.read(if_none_match="*"),
    "read now": lambda stream: stream.read("now"),
    "read nonsense": lambda stream: stream.read("nonsense"),
    "read another log": lambda stream: stream.read("0000000000000001_0000000000000000"),
    "long-poll": lambda stream: stream.long_poll("-1"),
    "head": lambda stream: stream.head(),
    "close": lambda stream: stream.close(),
    "delete": lambda stream: stream.delete(),
    "read nothing": lambda stream: Stream(stream.http, stream.url + "-none").read(),
    "head of nothing": lambda stream: Stream(stream.http, stream.url + "-none").head(),
    "append to nothing": lambda stream: Stream(stream.http, stream.url + "-none").append(b"1"),
    "delete nothing": lambda stream: Stream(stream.http, stream.url + "-none").delete(),
    "unknown method": lambda stream: stream.ask("PATCH", b"1"),
    "unknown path": lambda stream: Stream(stream.http, stream.url.split("/v1/")[0] + "/x").read(),
    "preflight": lambda stream: preflight(stream, "GET", "if-none-match"),
}


async def preflight(stream: Stream, method: str, headers: str) -> Answer:
    return await stream.ask(
        "OPTIONS",
        origin=ORIGIN,
        access_control_request_method=method,
        access_control_request_headers=headers,
    )


def listed(answer: Answer, header: str) -> set[str]:
    return {name.strip().lower() for name in answer.headers[header].split(",")}


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_every_answer_forbids_sniffing_and_allows_other_origins(
    new_stream: NewStream, kind: str
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    answer = await EVERY_KIND[kind](stream)
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert answer["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("kind", EVERY_KIND)
async def test_every_refusal_is_a_problem_document_that_no_cache_keeps(
    new_stream: NewStream, kind: str
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    answer = await EVERY_KIND[kind](stream)
    if answer.status < 400:
        assert answer["Content-Type"] != "application/problem+json"
    elif kind.startswith("head"):
        assert answer["Cache-Control"] == "no-store"
    else:
        assert_problem(answer, answer.status)


async def test_an_event_stream_carries_the_same_headers(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    async with stream.follow("-1") as following:
        headers = following.response.headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cross-Origin-Resource-Policy"] == "cross-origin"
        assert headers["Access-Control-Allow-Origin"] == "*"


@pytest.mark.parametrize("method", ["GET", "PUT", "POST", "DELETE", "HEAD"])
async def test_a_browser_may_send_every_method_and_header_of_the_protocol(
    new_stream: NewStream, method: str
) -> None:
    answer = await preflight(new_stream(), method, ", ".join(SENT).lower())
    assert answer.status in (200, 204)
    assert method.lower() in listed(answer, "Access-Control-Allow-Methods")
    assert {name.lower() for name in SENT} <= listed(answer, "Access-Control-Allow-Headers")


async def test_a_browser_may_read_every_header_of_the_protocol(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"1")
    answer = await stream.read(origin=ORIGIN)
    assert {name.lower() for name in RECEIVED} <= listed(answer, "Access-Control-Expose-Headers")


async def test_a_preflight_creates_nothing(new_stream: NewStream) -> None:
    stream = new_stream()
    await preflight(stream, "PUT", "content-type")
    assert (await stream.head()).status == 404


async def test_an_unknown_method_is_refused_with_those_that_are_known(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create(b"1")
    answer = await stream.ask("PATCH", b"2", content_type=JSON)
    assert_problem(answer, 405)
    assert {"get", "head", "post", "put", "delete"} <= listed(answer, "Allow")


async def test_only_the_origins_that_were_configured_are_allowed(
    http: aiohttp.ClientSession,
) -> None:
    env = {"DS_HTTP__CORS_ORIGINS": f"{ORIGIN},https://other.example"}
    with RunningServer(env=env) as server:
        stream = Stream(http, f"{server.url}/v1/stream/s")
        await stream.create(b"1")
        allowed = await stream.read(origin=ORIGIN)
        refused = await stream.read(origin="https://evil.example")
    assert allowed["Access-Control-Allow-Origin"] == ORIGIN
    assert "Origin" in allowed.headers["Vary"]
    assert refused["Access-Control-Allow-Origin"] not in ("*", "https://evil.example")
