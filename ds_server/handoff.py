"""Hand-off: an edge that proves itself gets the name of an object instead of its bytes."""

import hmac
from urllib.parse import urlsplit

from aiohttp import web

from ds_server import headers
from ds_server.keys import SETTINGS, STREAMS
from tiering.messages import body_length
from tiering.stream import View

# Where `infra/edge/nginx.conf` has the bucket.
_NGINX_BUCKET = "/ds-bucket"


def is_trusted(request: web.Request) -> bool:
    secret = request.app[SETTINGS].edge.secret
    shown = request.headers.get(headers.EDGE_SECRET)
    return bool(secret and shown) and hmac.compare_digest(_bytes(secret), _bytes(shown))


def _bytes(text: str | None) -> bytes:
    return (text or "").encode(errors="surrogateescape")


async def hand_off(
    request: web.Request, view: View, answer: dict[str, str]
) -> web.StreamResponse | None:
    """The answer without its body, when the body is an object and the asker can fetch it."""
    if not is_trusted(request):
        return None
    signed = request.app[SETTINGS].edge.presign
    address = await request.app[STREAMS].object_address(view, signed=signed)
    if address is None:
        return None
    length = body_length(view.stream.content_type, view.end - view.start)
    # Under its own name nginx would carry it to whatever it finds in the place of the object.
    rule = {headers.OBJECT_CACHE_CONTROL: answer.pop("Cache-Control")}
    return web.Response(headers=answer | rule | _names(address, length))


def _names(address: str, length: int) -> dict[str, str]:
    """The same in the words of each of our edges; an object of another length is damaged."""
    url = urlsplit(address)
    target = f"{url.path}?{url.query}" if url.query else url.path
    return {
        headers.OBJECT: target,
        headers.OBJECT_HOST: url.netloc or "bucket",
        headers.OBJECT_LENGTH: str(length),
        "X-Accel-Redirect": f"{_NGINX_BUCKET}{target}",
    }
