"""A bucket that stays open, for those who are not asynchronous."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from spark.options import Bucket
from tiering.objects.store import ObjectStore

T = TypeVar("T")


class Opened:
    """The store lives in a thread of its own, from entering to leaving."""

    def __init__(self, bucket: Bucket) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._bucket = bucket

    def __enter__(self) -> Self:
        self._thread.start()
        try:
            self._store = self._do(self._open()).result()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            self._do(self._store.__aexit__(kind, error, traceback)).result()
        finally:
            self._end()

    def begin(self, work: Callable[[ObjectStore], Coroutine[None, None, T]]) -> "Future[T]":
        return self._do(work(self._store))

    async def _open(self) -> ObjectStore:
        return await self._bucket.open().__aenter__()

    def _do(self, work: Coroutine[None, None, T]) -> "Future[T]":
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _end(self) -> None:
        self._do(self._loop.shutdown_asyncgens()).result()
        self._do(self._loop.shutdown_default_executor()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
