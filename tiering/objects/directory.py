"""Objects in a local directory, without holding up the event loop."""

import asyncio
import contextlib
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Mapping,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar
from urllib.parse import quote

from tiering.errors import Refused, Unavailable
from tiering.objects.files import Draft
from tiering.objects.folder import Folder, read
from tiering.objects.names import checked, decoded, encoded
from tiering.objects.paths import path_of
from tiering.objects.probe import probe
from tiering.objects.span import Span
from tiering.objects.store import PIECE_BYTES, ObjectInfo, ObjectMissing

T = TypeVar("T")


class DirectoryStore:
    def __init__(
        self, root: Path, *, page_keys: int = 1000, threads: int = 8, read_only: bool = False
    ) -> None:
        self._root = root
        self._read_only = read_only
        self._folder = Folder(root)
        self._page_keys = page_keys
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="objects")

    def __str__(self) -> str:
        return f"file://{self._root}"

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._folder.look if self._read_only else self._folder.open)
        except Unavailable as error:
            await self._close()
            raise Refused(f"{self} cannot be used: {error.__cause__}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._close()

    async def check(self) -> None:
        await probe(self)

    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        return await self._put(key, body, encoded(metadata), replace=False)

    async def put(self, key: str, body: bytes) -> None:
        await self._put(key, body, {}, replace=True)

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        checked(key)
        draft = await self._begin()
        try:
            async for piece in pieces:
                await self._run(partial(self._folder.write, draft, piece))
            await self._run(partial(self._folder.finish, draft, key))
        finally:
            await self._run(draft.discard)

    async def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        span = Span.of(start, end)
        return await self._run(lambda: self._read(checked(key), span))

    async def stream(
        self, key: str, start: int | None = None, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        span = Span.of(start, end)
        file, left = await self._run(lambda: self._folder.open_object(checked(key), span))
        with file:
            while left:
                size = min(left, PIECE_BYTES)
                yield await self._run(partial(read, file, size))
                left -= size

    async def address(self, key: str, *, signed: bool) -> str:
        return f"/{quote(path_of(checked(key)))}"

    async def head(self, key: str) -> ObjectInfo | None:
        try:
            info = await self._run(lambda: self._folder.info(checked(key)))
        except ObjectMissing:
            return None
        return ObjectInfo(key, info.size, decoded(info.metadata))

    async def list(self, prefix: str = "", after: str | None = None) -> AsyncIterator[ObjectInfo]:
        found = self._folder.walk(prefix, after)
        while page := await self._run(lambda: tuple(islice(found, self._page_keys))):
            for info in page:
                yield info

    async def delete(self, keys: Sequence[str]) -> None:
        known = [checked(key) for key in keys]
        for first in range(0, len(known), self._page_keys):
            batch = known[first : first + self._page_keys]
            await self._run(partial(self._folder.delete, batch))

    async def _begin(self) -> Draft:
        """Who is cancelled meanwhile leaves none behind: the thread goes on."""
        beginning = asyncio.ensure_future(self._run(self._folder.begin))
        try:
            return await asyncio.shield(beginning)
        except asyncio.CancelledError:
            with contextlib.suppress(Unavailable):
                await self._run((await beginning).discard)
            raise

    async def _put(
        self, key: str, body: bytes, metadata: Mapping[str, str], *, replace: bool
    ) -> bool:
        checked(key)
        return await self._run(lambda: self._folder.put(key, body, metadata, replace=replace))

    def _read(self, key: str, span: Span) -> bytes:
        file, length = self._folder.open_object(key, span)
        with file:
            return read(file, length)

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    async def _close(self) -> None:
        await asyncio.to_thread(self._threads.shutdown)
