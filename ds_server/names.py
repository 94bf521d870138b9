"""From the path of a URL to the name of a stream."""

from functools import lru_cache
from urllib.parse import quote, unquote, unquote_to_bytes

from aiohttp import web

from tiering.cold.keys import LONGEST_NAME
from tiering.errors import Invalid
from tiering.membership import BUCKETED, bucket_id, member

ROOT = "/v1/stream/"
BUCKETS_ROOT = "/ds/"


def stream_name(request: web.Request) -> str:
    return name_of(request.rel_url.raw_path)


def bucket_of(request: web.Request) -> str:
    """The bucket that a path below `/ds/` begins with."""
    return bucket_id(_text(request.rel_url.raw_path.split("/")[2], "bucket's id"))


def stream_path(request: web.Request) -> str:
    """The path of the stream that a resource below `/ds/` belongs to, as it came."""
    return "/".join(request.rel_url.raw_path.split("/")[:4])


def source_name(path: str) -> str:
    """The stream that a fork is to be made of, by its own path."""
    if "/" in (_below(BUCKETS_ROOT, path) or "").partition("/")[2]:
        raise Invalid("Stream-Forked-From is the path of a stream, and nothing below it.")
    return name_of(path)


@lru_cache(maxsize=4096)
def name_of(path: str) -> str:
    """The stream that lives at a path, or that the resource there belongs to."""
    in_a_bucket, in_none = _below(BUCKETS_ROOT, path), _below(ROOT, path)
    if in_a_bucket is not None:
        return _in_a_bucket(in_a_bucket)
    if in_none is not None:
        return _in_no_bucket(in_none)
    raise Invalid(f"The path of a stream begins with {ROOT} or {BUCKETS_ROOT}.")


def _below(root: str, path: str) -> str | None:
    """What follows a root, as it came. The root's letters may be percent-encoded, its slashes
    not: the router, who chooses what is done, reads paths in this way."""
    above = root.split("/")[:-1]
    *segments, rest = path.split("/", len(above))
    return rest if [unquote(segment) for segment in segments] == above else None


def _in_no_bucket(path: str) -> str:
    raw = unquote_to_bytes(path)
    if not raw or len(quote(raw, safe="")) > LONGEST_NAME:
        raise Invalid(f"A stream's name has 1 to {LONGEST_NAME} bytes, percent-encoded.")
    name = _decoded(raw, "stream's name")
    segments = name.split("/")
    if "\0" in name or "." in segments or ".." in segments:
        raise Invalid("A stream's name has no NUL and no segments '.' or '..'.")
    if segments[0] == BUCKETED:
        raise Invalid(f"Names below {BUCKETED}/ are reserved.")
    return name


def _in_a_bucket(path: str) -> str:
    """Ids have no slash: what follows the second one is a resource of the stream."""
    bucket, _, rest = path.partition("/")
    stream = rest.partition("/")[0]
    return member(_text(bucket, "bucket's id"), _text(stream, "stream's id")).name


def _text(encoded: str, what: str) -> str:
    return _decoded(unquote_to_bytes(encoded), what)


def _decoded(raw: bytes, what: str) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise Invalid(f"A {what} is UTF-8.") from error
