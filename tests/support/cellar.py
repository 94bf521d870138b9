"""A bucket whose objects are laid by hand."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark.options import Options
from spark.planning import Planned, Planner
from tiering.cold import index as indexes
from tiering.cold.index import Record
from tiering.cold.keys import DEPLOYMENT, Piece, manifest_key
from tiering.cold.manifest import VERSION, Manifest
from tiering.objects.counted import CountedStore
from tiering.objects.directory import DirectoryStore

TEXT = "text/plain"


def piece(start: int, end: int, log: int = 1, kind: str = "part", name: str = "s") -> Piece:
    return Piece(kind, name, log, start, end)  # type: ignore[arg-type]


def manifest(name: str = "s", log: int = 1, sealed: int = 0, **more: Any) -> Manifest:
    return Manifest(VERSION, name, log, TEXT, 100, 0, tail=sealed, sealed=sealed, **more)


@dataclass
class Cellar:
    """A bucket whose objects are laid by hand."""

    folder: Path

    def lay(
        self, *manifests: Manifest, pieces: Sequence[Piece] = (), message_bytes: int = 1
    ) -> None:
        """A message that ends at a position was appended so many seconds after the epoch."""
        asyncio.run(self._lay(manifests, pieces, message_bytes))

    async def _lay(
        self, manifests: tuple[Manifest, ...], pieces: Sequence[Piece], size: int
    ) -> None:
        async with DirectoryStore(self.folder) as store:
            await store.put(DEPLOYMENT, b"id")
            for one in manifests:
                await store.put(manifest_key(one.name, one.log), one.encode())
            for one in pieces:
                content = b"x" * (one.end - one.start)
                records = [
                    Record(end, 1000 * end) for end in range(one.start + size, one.end + 1, size)
                ]
                index = indexes.build(one.start, one.end, content, records, {}, "")
                await store.put(one.index_key, index.encode())
                await store.put(one.key, content)

    def options(self, **given: str) -> Options:
        return Options.parse({"url": str(self.folder), **given})

    def plan(self, **given: str) -> tuple[list[Planned], dict[str, int]]:
        return asyncio.run(self._plan(self.options(**given)))

    async def _plan(self, options: Options) -> tuple[list[Planned], dict[str, int]]:
        async with options.bucket.open() as store:
            counted = CountedStore(store)
            return await Planner(options, counted).streams(), dict(counted.requests)
