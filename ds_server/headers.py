"""The names of the protocol's headers, and how a header is read."""

from typing import Final

from multidict import CIMultiDictProxy

from tiering.errors import Invalid

STREAM_NEXT_OFFSET: Final = "Stream-Next-Offset"
STREAM_UP_TO_DATE: Final = "Stream-Up-To-Date"
STREAM_CLOSED: Final = "Stream-Closed"
STREAM_CURSOR: Final = "Stream-Cursor"
STREAM_SEQ: Final = "Stream-Seq"
STREAM_TTL: Final = "Stream-TTL"
STREAM_EXPIRES_AT: Final = "Stream-Expires-At"
STREAM_SSE_DATA_ENCODING: Final = "Stream-SSE-Data-Encoding"
STREAM_FORKED_FROM: Final = "Stream-Forked-From"
STREAM_FORK_OFFSET: Final = "Stream-Fork-Offset"
STREAM_FORK_SUB_OFFSET: Final = "Stream-Fork-Sub-Offset"
PRODUCER_ID: Final = "Producer-Id"
PRODUCER_EPOCH: Final = "Producer-Epoch"
PRODUCER_SEQ: Final = "Producer-Seq"
PRODUCER_EXPECTED_SEQ: Final = "Producer-Expected-Seq"
PRODUCER_RECEIVED_SEQ: Final = "Producer-Received-Seq"

TRUE: Final = "true"

REQUEST_HEADERS: Final = (
    "Content-Type",
    "Authorization",
    "If-None-Match",
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
    "ETag",
    "Location",
    "Content-Type",
    "Retry-After",
    STREAM_NEXT_OFFSET,
    STREAM_CURSOR,
    STREAM_UP_TO_DATE,
    STREAM_CLOSED,
    STREAM_TTL,
    STREAM_EXPIRES_AT,
    STREAM_SSE_DATA_ENCODING,
    PRODUCER_EPOCH,
    PRODUCER_SEQ,
    PRODUCER_EXPECTED_SEQ,
    PRODUCER_RECEIVED_SEQ,
)


def single(headers: CIMultiDictProxy[str], name: str) -> str | None:
    values = headers.getall(name, ())
    if len(values) > 1:
        raise Invalid(f"The header {name} is given more than once.")
    return _utf8(values[0], name) if values else None


def _utf8(value: str, name: str) -> str:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise Invalid(f"The header {name} is not valid UTF-8.") from error
    return value


def is_true(headers: CIMultiDictProxy[str], name: str) -> bool:
    return headers.get(name, "").lower() == TRUE
