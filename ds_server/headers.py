"""The names of the protocol's headers, and how a header is read."""

from typing import Final

from multidict import CIMultiDictProxy, istr

from tiering.errors import Invalid

CONTENT_TYPE: Final = istr("Content-Type")
STREAM_NEXT_OFFSET: Final = istr("Stream-Next-Offset")
STREAM_UP_TO_DATE: Final = istr("Stream-Up-To-Date")
STREAM_CLOSED: Final = istr("Stream-Closed")
STREAM_CURSOR: Final = istr("Stream-Cursor")
STREAM_SEQ: Final = istr("Stream-Seq")
STREAM_TTL: Final = istr("Stream-TTL")
STREAM_EXPIRES_AT: Final = istr("Stream-Expires-At")
STREAM_SSE_DATA_ENCODING: Final = istr("Stream-SSE-Data-Encoding")
STREAM_SNAPSHOT_OFFSET: Final = istr("Stream-Snapshot-Offset")
STREAM_FORKED_FROM: Final = istr("Stream-Forked-From")
STREAM_FORK_OFFSET: Final = istr("Stream-Fork-Offset")
STREAM_FORK_SUB_OFFSET: Final = istr("Stream-Fork-Sub-Offset")
PRODUCER_ID: Final = istr("Producer-Id")
PRODUCER_EPOCH: Final = istr("Producer-Epoch")
PRODUCER_SEQ: Final = istr("Producer-Seq")
PRODUCER_EXPECTED_SEQ: Final = istr("Producer-Expected-Seq")
PRODUCER_RECEIVED_SEQ: Final = istr("Producer-Received-Seq")

REQUEST_ID: Final = istr("X-Request-Id")

# Between our edges and the server; readers see none of them.
EDGE_SECRET: Final = istr("DS-Edge-Secret")
EDGE_SECONDS: Final = istr("DS-Edge-Seconds")
OBJECT: Final = istr("DS-Object")
OBJECT_HOST: Final = istr("DS-Object-Host")
OBJECT_LENGTH: Final = istr("DS-Object-Length")
OBJECT_CACHE_CONTROL: Final = istr("DS-Cache-Control")

TRUE: Final = "true"

REQUEST_HEADERS: Final = (
    "Content-Type",
    "Authorization",
    "If-None-Match",
    "If-Range",
    "Range",
    REQUEST_ID,
    STREAM_SEQ,
    STREAM_TTL,
    STREAM_EXPIRES_AT,
    STREAM_CLOSED,
    PRODUCER_ID,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    STREAM_FORKED_FROM,
    STREAM_FORK_OFFSET,
    STREAM_FORK_SUB_OFFSET,
)
RESPONSE_HEADERS: Final = (
    REQUEST_ID,
    "ETag",
    "Location",
    "Content-Type",
    "Retry-After",
    "Accept-Ranges",
    "Content-Range",
    STREAM_NEXT_OFFSET,
    STREAM_CURSOR,
    STREAM_UP_TO_DATE,
    STREAM_CLOSED,
    STREAM_TTL,
    STREAM_EXPIRES_AT,
    STREAM_SSE_DATA_ENCODING,
    STREAM_SNAPSHOT_OFFSET,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    PRODUCER_EXPECTED_SEQ,
    PRODUCER_RECEIVED_SEQ,
)


def single(headers: CIMultiDictProxy[str], name: str) -> str | None:
    value = headers.get(name)
    if value is None:
        return None
    if len(headers.getall(name)) > 1:
        raise Invalid(f"The header {name} is given more than once.")
    return _utf8(value, name)


def _utf8(value: str, name: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"The header {name} is not valid UTF-8.") from error
    return value


def is_true(headers: CIMultiDictProxy[str], name: str) -> bool:
    """Any other value counts as none; the protocol wants it so."""
    values = headers.getall(name, [])
    if len(values) > 1:
        raise Invalid(f"The header {name} is given more than once.")
    return bool(values) and values[0].lower() == TRUE
