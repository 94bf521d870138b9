"""What the hot tier records as recalled: what edges and caches may have, and must not any more."""

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from tiering.hot.agenda import Agenda
from tiering.hot.keys import ANY_RECALLS, RECALLER, RECALLS, stream_keys, stream_name
from tiering.hot.pipe import Pipe


@dataclass(frozen=True, slots=True)
class Recall:
    """The log of a deleted stream, with the bodies that edges can read until `gone_ms`; or the
    key of a snapshot that was published, before which nothing is retained."""

    subject: str
    noted_ms: int
    gone_ms: int | None

    @property
    def log(self) -> int | None:
        return int(self.subject) if self.subject.isdigit() else None

    @property
    def has_bodies(self) -> bool:
        return self.log is not None and self.gone_ms is None


class RecallDesk(Agenda):
    """A record is made in the same step as what it follows from, and stands until every cache
    has forgotten the stream."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe, RECALLS, RECALLER)

    async def of(self, name: str) -> list[Recall]:
        flat = await self._pipe.call("HGETALL", stream_keys(name).recalls)
        pairs = zip(flat[::2], flat[1::2], strict=True)
        return [_recall(subject.decode(), times.decode()) for subject, times in pairs]

    async def note(self, name: str, logs: Iterable[int], now_ms: int) -> None:
        """Of a deleted stream that edges can read."""
        words = (word for log in logs for word in (log, now_ms))
        await self._pipe.call("HSET", stream_keys(name).recalls, *words)

    async def withdrawn(self, name: str, recalls: Iterable[Recall], now_ms: int) -> None:
        """Their bodies are where no edge reads."""
        words = (word for one in recalls for word in (one.subject, f"{one.noted_ms}:{now_ms}"))
        await self._pipe.call("HSET", stream_keys(name).recalls, *words)

    async def forget(self, name: str, recalls: Iterable[Recall]) -> None:
        await self._pipe.call("HDEL", stream_keys(name).recalls, *(one.subject for one in recalls))

    async def names(self) -> AsyncIterator[str]:
        """Every stream of which something is recalled, at least once."""
        async for key in self._pipe.scan(ANY_RECALLS):
            yield stream_name(key)


def _recall(subject: str, times: str) -> Recall:
    noted, _, gone = times.partition(":")
    return Recall(subject, int(noted), int(gone) if gone else None)
