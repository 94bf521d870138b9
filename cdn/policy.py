"""How long which answer may be kept, and by whom. Nothing else writes a Cache-Control."""

from dataclasses import dataclass
from typing import Literal

from tiering.offset import NOW, Offset, ReadFrom
from tiering.stream import Stream, View

NO_STORE = "no-store"
"""For everything that is not a read: writes, HEAD, every error."""

_NO_CACHE = "no-cache"
_IMMUTABLE = "public, max-age=31536000, immutable"
_STALE = "stale-while-revalidate=300, stale-if-error=86400"
_CHUNK_SECS = 60
_LONG_POLL_SECS = 20
_SSE_MARGIN_SECS = 5
_LONGEST_SHARED_SSE_SECS = 55


@dataclass(frozen=True, slots=True)
class Read:
    """What decides about the answer: who asks for what, and what is there."""

    view: View
    source: ReadFrom
    live: Literal["long-poll", "sse"] | None = None
    tail_secs: int = 1
    is_private: bool = False
    has_read_key: bool = False


def cache_control(read: Read) -> str:
    """A read key is part of the URL, so who has it may share what it opens."""
    rule = _rule(read)
    return _for_one_reader(rule) if read.is_private and not read.has_read_key else rule


def _rule(read: Read) -> str:
    match read.live:
        case "sse":
            return _NO_CACHE
        case "long-poll":
            return _long_poll(read.view, read.source)
        case None:
            return _catch_up(read.view, read.source, read.tail_secs)


def _catch_up(view: View, source: ReadFrom, tail_secs: int) -> str:
    if source is NOW:
        return NO_STORE
    if view.at_tail and not view.stream.closed:
        return _shared(_bounded(view.stream, tail_secs))
    if view.stream.lifetime.ends:
        return _shared(_bounded(view.stream, _CHUNK_SECS))
    if _names_the_log(view.stream, source):
        return _IMMUTABLE
    return f"{_shared(_CHUNK_SECS)}, {_STALE}"


def _long_poll(view: View, source: ReadFrom) -> str:
    if source is NOW or view.is_empty:
        return NO_STORE
    if view.stream.lifetime.ends:
        return _shared(_bounded(view.stream, _LONG_POLL_SECS))
    if _names_the_log(view.stream, source):
        return f"public, max-age={_LONG_POLL_SECS}"
    return f"{_shared(_LONG_POLL_SECS)}, {_STALE}"


def snapshot(stream: Stream) -> str:
    """It never changes, but says whether there is newer data, so it is asked for again."""
    return _shared(_bounded(stream, _CHUNK_SECS))


def shared_sse_secs(planned_secs: float) -> int:
    """How long an edge may let readers join an SSE answer of that planned life.

    One that has ended must not be kept: who reconnects would get it again at once, for ever.
    """
    if not planned_secs:
        return _LONGEST_SHARED_SSE_SECS
    return max(0, int(planned_secs) - _SSE_MARGIN_SECS)


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


def _for_one_reader(rule: str) -> str:
    """What the reader's own cache may do stays; edges see by `private` that they must not share."""
    own = [part for part in rule.split(", ") if not part.startswith(("public", "s-", "stale-"))]
    return ", ".join(["private", *own])
