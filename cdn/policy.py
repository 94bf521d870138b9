"""How long which answer may be kept, and by whom. Nothing else writes a Cache-Control."""

from tiering.offset import NOW, Offset, ReadFrom
from tiering.stream import Stream, View

NO_STORE = "no-store"
SSE = "no-cache"

_IMMUTABLE = "public, max-age=31536000, immutable"
_CHUNK_SECS = 60
_LONG_POLL_SECS = 20
_STALE = "stale-while-revalidate=300, stale-if-error=86400"


def catch_up(view: View, source: ReadFrom, tail_secs: int) -> str:
    if source is NOW:
        return NO_STORE
    if view.at_tail and not view.stream.closed:
        return _shared(_bounded(view.stream, tail_secs))
    if view.stream.lifetime.ends:
        return _shared(_bounded(view.stream, _CHUNK_SECS))
    if _names_the_log(view.stream, source):
        return _IMMUTABLE
    return f"{_shared(_CHUNK_SECS)}, {_STALE}"


def long_poll(view: View, source: ReadFrom) -> str:
    if source is NOW:
        return NO_STORE
    if view.stream.lifetime.ends:
        return _shared(_bounded(view.stream, _LONG_POLL_SECS))
    if _names_the_log(view.stream, source):
        return f"public, max-age={_LONG_POLL_SECS}"
    return f"{_shared(_LONG_POLL_SECS)}, {_STALE}"


def _names_the_log(stream: Stream, source: ReadFrom) -> bool:
    """Only such a URL can never come to mean another stream."""
    return isinstance(source, Offset) and source.log == stream.log


def _shared(secs: int) -> str:
    return f"public, max-age=0, s-maxage={secs}" if secs >= 1 else NO_STORE


def _bounded(stream: Stream, secs: int) -> int:
    """Reads from a cache do not renew a sliding window, and no cache outlives an expiry."""
    if stream.lifetime.ttl_secs is not None:
        return min(secs, stream.lifetime.ttl_secs // 4)
    if stream.deadline_ms is not None:
        return min(secs, (stream.deadline_ms - stream.now_ms) // 1000)
    return secs
