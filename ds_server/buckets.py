"""Buckets: made, described, listed, deleted."""

import re
from urllib.parse import unquote_to_bytes

import orjson
from aiohttp import web

from cdn import policy
from ds_server.body import expect
from ds_server.keys import BUCKETS
from ds_server.names import BUCKETS_ROOT, bucket_of
from ds_server.read import single
from tiering.errors import Invalid
from tiering.hot.buckets import Facts
from tiering.membership import LISTING, RESERVED

_MOST = 1000
_NUMBER = re.compile(r"[0-9]{1,4}")
_NOT_KEPT = {"Cache-Control": policy.NO_STORE}


async def create(request: web.Request) -> web.Response:
    bucket = bucket_of(request)
    await request.app[BUCKETS].create(bucket)
    place = f"{request.scheme}://{request.host}{BUCKETS_ROOT}{bucket}"
    return _json(201, {"bucket_id": bucket, "streams": 0}, {"Location": place})


async def describe(request: web.Request) -> web.Response:
    bucket = bucket_of(request)
    created_ms, streams = await request.app[BUCKETS].describe(bucket)
    return _json(200, {"bucket_id": bucket, "streams": streams, "created_at_ms": created_ms})


async def delete(request: web.Request) -> web.Response:
    await request.app[BUCKETS].delete(bucket_of(request))
    return web.Response(status=204, headers=_NOT_KEPT)


async def listing(request: web.Request) -> web.Response:
    bucket, query = bucket_of(request), request.query
    _check_text(request.rel_url.raw_query_string)
    prefix, after = single(query, "prefix") or "", single(query, "after") or ""
    limit = _limit(single(query, "limit"))
    page = await request.app[BUCKETS].page(bucket, prefix, after, limit)
    return _json(
        200,
        {
            "bucket_id": bucket,
            "prefix": prefix,
            "stream_count": len(page.streams),
            "streams": [_entry(stream, facts) for stream, facts in page.streams],
            "next_cursor": page.streams[-1][0] if page.has_more else None,
            "has_more": page.has_more,
        },
    )


def _entry(stream: str, facts: Facts) -> dict[str, object]:
    return {
        "stream_id": stream,
        "status": "Closed" if facts.closed else "Open",
        "content_type": facts.content_type,
        "tail_offset": facts.tail,
        "created_at_ms": facts.created_ms,
        "last_write_at_ms": facts.written_ms,
    }


def _limit(text: str | None) -> int:
    if text is None:
        return _MOST
    if not _NUMBER.fullmatch(text) or not 1 <= int(text) <= _MOST:
        raise Invalid(f"limit is a whole number from 1 to {_MOST}.")
    return int(text)


def _check_text(query: str) -> None:
    raw = unquote_to_bytes(query)
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid("prefix and after are UTF-8.") from error
    if b"\0" in raw:
        raise Invalid("prefix and after have no NUL: no stream's id has one.")


async def _not_a_stream(request: web.Request) -> web.Response:
    """Who creates something there is told why that cannot be; a listing can only be read."""
    if request.method == "PUT":
        raise Invalid(RESERVED)
    raise web.HTTPMethodNotAllowed(request.method, ("GET", "HEAD"))


def _json(status: int, content: object, more: dict[str, str] | None = None) -> web.Response:
    return web.Response(
        status=status,
        body=orjson.dumps(content),
        headers={"Content-Type": "application/json", **_NOT_KEPT, **(more or {})},
    )


def add_routes(app: web.Application) -> None:
    path = f"{BUCKETS_ROOT}{{bucket:[^/]*}}"
    app.router.add_put(path, create)
    app.router.add_get(path, describe)
    app.router.add_delete(path, delete)
    app.router.add_get(f"{path}/{LISTING}", listing)
    app.router.add_route("*", f"{path}/{LISTING}", _not_a_stream, expect_handler=expect)
