"""Objects for a task that works on one while the next are under way."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial

from spark.messages import Messages, decode
from spark.opened import Opened
from spark.options import Bucket
from spark.planning import Sealed, Source
from tiering.cold import index as indexes
from tiering.errors import Unavailable
from tiering.objects.store import ObjectMissing, ObjectStore
from tiering.stream import ContentType

_AHEAD = 8
_AHEAD_BYTES = 32 * 2**20

Fetched = tuple[bytes, bytes]


class Removed(Unavailable):
    """An object that was there when the work was planned."""


class Fetcher(Opened):
    """Object stores are asynchronous, tasks of Spark are not."""

    def messages(self, work: Iterable[Sealed]) -> Iterator[Messages]:
        """Of each slice, in order. Who leaves before the end stops what is under way."""
        left = deque(work)
        under_way: deque[tuple[Sealed, Future[Fetched]]] = deque()
        try:
            while left or under_way:
                while left and _has_room(under_way, left[0]):
                    sealed = left.popleft()
                    under_way.append((sealed, self.begin(partial(_fetch, sealed))))
                yield _decoded(*under_way.popleft())
        finally:
            for _, fetched in under_way:
                fetched.cancel()

    def pieces(self, key: str) -> Iterator[bytes]:
        """Of one object, whatever it holds."""
        stream = self._store.stream(key)
        try:
            while piece := self._do(_next(stream)).result():
                yield piece
        except ObjectMissing as error:
            raise _removed(key) from error
        finally:
            self._do(stream.aclose()).result()


def sealed_messages(bucket: Bucket, work: Sequence[Sealed]) -> Iterator[tuple[Source, Messages]]:
    """With whose they are."""
    if not work:
        return
    with Fetcher(bucket) as fetcher:
        for one, messages in zip(work, fetcher.messages(work), strict=True):
            yield one.source, messages


async def _fetch(sealed: Sealed, store: ObjectStore) -> Fetched:
    piece = sealed.slice.piece
    try:
        index, body = await asyncio.gather(store.get(piece.index_key), store.get(piece.key))
    except ObjectMissing as error:
        raise _removed(piece.key) from error
    return index, body


def _removed(key: str) -> Removed:
    return Removed(f"{key} was removed while the query was running: run it again.")


async def _next(stream: AsyncGenerator[bytes, None]) -> bytes:
    return await anext(stream, b"")


def _decoded(sealed: Sealed, fetched: "Future[Fetched]") -> Messages:
    index, body = fetched.result()
    is_json = ContentType(sealed.source.content_type).is_json
    key = sealed.slice.piece.index_key
    return decode(indexes.decode(index, key), body, sealed.slice, is_json=is_json)


def _has_room(under_way: "deque[tuple[Sealed, Future[Fetched]]]", more: Sealed) -> bool:
    size = sum(sealed.cost for sealed, _ in under_way)
    return not under_way or (len(under_way) < _AHEAD and size + more.cost <= _AHEAD_BYTES)
