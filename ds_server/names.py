"""From the path of a URL to the name of a stream."""

from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from aiohttp import web

from tiering.errors import Invalid

ROOT = "/v1/stream/"
RESERVED = "__ds"
# Object stores take keys of 1,024 bytes, and a name must leave room for what stands around it.
_LONGEST_ENCODED = 800


def stream_name(request: web.Request) -> str:
    return _parse(request.rel_url.raw_path)


@lru_cache(maxsize=4096)
def _parse(path: str) -> str:
    raw = unquote_to_bytes(path).removeprefix(ROOT.encode())
    if not raw or len(quote(raw, safe="")) > _LONGEST_ENCODED:
        raise Invalid(f"A stream's name has 1 to {_LONGEST_ENCODED} bytes, percent-encoded.")
    try:
        name = raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid("A stream's name is UTF-8.") from error
    segments = name.split("/")
    if "\0" in name or "." in segments or ".." in segments:
        raise Invalid("A stream's name has no NUL and no segments '.' or '..'.")
    if segments[0] == RESERVED:
        raise Invalid(f"Names below {RESERVED}/ are reserved.")
    return name
