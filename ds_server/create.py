"""PUT: create a stream."""

import re
from datetime import UTC, datetime
from functools import lru_cache, partial

from aiohttp import web
from multidict import CIMultiDictProxy

from cdn import policy
from ds_server import headers
from ds_server.body import read_body
from ds_server.keys import SETTINGS, STREAMS
from ds_server.names import source_name, stream_name
from tiering.cold.keys import segment
from tiering.errors import Invalid
from tiering.forks import ForkPlace, Wishes
from tiering.hot.terms import Created
from tiering.messages import encode
from tiering.offset import parse_read_from
from tiering.stream import DEFAULT_CONTENT_TYPE, Configuration, ContentType, Lifetime

_TTL = re.compile(r"0|[1-9][0-9]{0,14}")
_SUB_OFFSET = re.compile(r"0|[1-9][0-9]{0,14}")
_RFC3339 = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]([0-9]{2}:[0-9]{2}:[0-9]{2})(\.[0-9]+)?"
    r"([Zz]|[+-][0-9]{2}:[0-9]{2})"
)
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+")


async def create(request: web.Request) -> web.Response:
    name = _storable(stream_name(request), request.app[SETTINGS].limits.max_name_bytes)
    place = parse_fork(request.headers)
    if place is None:
        wanted = parse_configuration(request.headers)
        payload = encode(wanted.content_type, await read_body(request))
        created = await request.app[STREAMS].create(name, wanted, payload)
    else:
        wishes, body = parse_wishes(request.headers), await read_body(request)
        created = await request.app[STREAMS].fork(name, place, wishes, partial(encode, body=body))
    return _render(request, created, closed=headers.is_true(request.headers, headers.STREAM_CLOSED))


def _storable(name: str, longest: int) -> str:
    if len(segment(name)) > longest:
        raise Invalid(f"A stream's name has at most {longest} bytes here, percent-encoded.")
    return name


def _render(request: web.Request, created: Created, *, closed: bool) -> web.Response:
    answer = {
        "Content-Type": created.content_type.text,
        headers.STREAM_NEXT_OFFSET: str(created.tail),
        "Cache-Control": policy.NO_STORE,
    }
    if closed:
        answer[headers.STREAM_CLOSED] = headers.TRUE
    if created.is_new:
        answer["Location"] = f"{request.scheme}://{request.host}{request.rel_url.raw_path}"
    return web.Response(status=201 if created.is_new else 200, headers=answer)


def parse_fork(given: CIMultiDictProxy[str]) -> ForkPlace | None:
    source = headers.single(given, headers.STREAM_FORKED_FROM)
    offset = headers.single(given, headers.STREAM_FORK_OFFSET)
    sub_offset = headers.single(given, headers.STREAM_FORK_SUB_OFFSET)
    if source is None:
        if offset is not None or sub_offset is not None:
            raise Invalid("A fork offset needs Stream-Forked-From.")
        return None
    place = None if offset is None else parse_read_from(offset)
    if offset is not None and place is None:
        raise Invalid("Stream-Fork-Offset is malformed.")
    if sub_offset is not None and not _SUB_OFFSET.fullmatch(sub_offset):
        raise Invalid("Stream-Fork-Sub-Offset is a whole number without sign or leading zeros.")
    return ForkPlace(source_name(source), place, int(sub_offset or 0))


def parse_wishes(given: CIMultiDictProxy[str]) -> Wishes:
    text = headers.single(given, headers.CONTENT_TYPE)
    configuration = parse_configuration(given)
    content_type = None if text is None else configuration.content_type
    return Wishes(content_type, configuration.lifetime, configuration.closed)


def parse_configuration(given: CIMultiDictProxy[str]) -> Configuration:
    return Configuration(
        content_type=_content_type(headers.single(given, headers.CONTENT_TYPE)),
        lifetime=_lifetime(
            headers.single(given, headers.STREAM_TTL),
            headers.single(given, headers.STREAM_EXPIRES_AT),
        ),
        closed=headers.is_true(given, headers.STREAM_CLOSED),
    )


def _content_type(text: str | None) -> ContentType:
    if text is None:
        return ContentType(DEFAULT_CONTENT_TYPE)
    return parse_content_type(text)


@lru_cache(maxsize=1024)
def parse_content_type(text: str) -> ContentType:
    content_type = ContentType(text)
    if not _MEDIA_TYPE.fullmatch(content_type.media):
        raise Invalid("The Content-Type is not a media type.")
    return content_type


def _lifetime(ttl: str | None, expires_at: str | None) -> Lifetime:
    if ttl is not None and expires_at is not None:
        raise Invalid("Give Stream-TTL or Stream-Expires-At, not both.")
    if ttl is not None:
        if not _TTL.fullmatch(ttl):
            raise Invalid("Stream-TTL is a whole number of seconds without sign or leading zeros.")
        return Lifetime(ttl_secs=int(ttl))
    if expires_at is not None:
        return Lifetime(expires_ms=_timestamp_ms(expires_at), expires_text=expires_at)
    return Lifetime()


def _timestamp_ms(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise Invalid("Stream-Expires-At is not an RFC 3339 timestamp.")
    date, time, fraction, zone = match.groups()
    zone = "+00:00" if zone in "Zz" else zone
    try:
        moment = datetime.fromisoformat(f"{date}T{time}{zone}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise Invalid("Stream-Expires-At is not a moment of the calendar.") from error
    millis = int(((fraction or ".0")[1:] + "000")[:3])
    return int(moment.timestamp()) * 1000 + millis
