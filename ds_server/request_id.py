"""Each request has an id, in its answer and in the log. A client may bring its own."""

import os
import re
from itertools import count

from aiohttp import web

from ds_server import headers

_GIVEN = re.compile(r"[A-Za-z0-9._~+/=:-]{1,128}")
_KEY = web.RequestKey("request_id", str)
_process = os.urandom(6).hex()
_numbers = count()


def request_id(request: web.BaseRequest) -> str:
    known = request.get(_KEY)
    if known is None:
        known = request[_KEY] = chosen_id(request.headers.get(headers.REQUEST_ID))
    return known


def chosen_id(given: str | None) -> str:
    if given and _GIVEN.fullmatch(given):
        return given
    return f"{_process}-{next(_numbers):x}"
