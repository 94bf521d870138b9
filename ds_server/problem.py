"""Every refusal, as RFC 9457 asks for it."""

from http import HTTPStatus
from typing import Final

import orjson
from aiohttp import web

from cdn import policy
from ds_server import headers
from tiering.errors import (
    Conflict,
    Corrupt,
    Deleted,
    Fenced,
    Gone,
    Invalid,
    Mistake,
    NotFound,
    SequenceGap,
    StreamClosed,
    StreamError,
    TooLarge,
    Unavailable,
)

STATUS: Final[dict[type[StreamError], HTTPStatus]] = {
    Invalid: HTTPStatus.BAD_REQUEST,
    NotFound: HTTPStatus.NOT_FOUND,
    Gone: HTTPStatus.GONE,
    Deleted: HTTPStatus.GONE,
    Fenced: HTTPStatus.FORBIDDEN,
    Conflict: HTTPStatus.CONFLICT,
    TooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
    Corrupt: HTTPStatus.INTERNAL_SERVER_ERROR,
    Mistake: HTTPStatus.INTERNAL_SERVER_ERROR,
}


def status_of(error: StreamError) -> HTTPStatus:
    return next(STATUS[kind] for kind in type(error).__mro__ if kind in STATUS)


def answer(error: StreamError) -> web.Response:
    return problem(status_of(error), str(error), _extra_headers(error))


def problem(
    status: HTTPStatus, detail: str, extra_headers: dict[str, str] | None = None
) -> web.Response:
    body = {"title": status.phrase, "status": status.value, "detail": detail}
    return web.Response(
        status=status.value,
        body=orjson.dumps(body),
        headers={
            "Content-Type": "application/problem+json",
            "Cache-Control": policy.NO_STORE,
            **(extra_headers or {}),
        },
    )


def _extra_headers(error: StreamError) -> dict[str, str]:
    match error:
        case StreamClosed():
            return {
                headers.STREAM_CLOSED: headers.TRUE,
                headers.STREAM_NEXT_OFFSET: str(error.tail),
            }
        case SequenceGap():
            return {
                headers.PRODUCER_EXPECTED_SEQ: str(error.expected),
                headers.PRODUCER_RECEIVED_SEQ: str(error.received),
            }
        case Fenced():
            return {headers.PRODUCER_EPOCH: str(error.current_epoch)}
        case Gone():
            return {headers.STREAM_NEXT_OFFSET: str(error.resume)}
        case Unavailable():
            return {"Retry-After": str(error.retry_after_secs)}
        case _:
            return {}
