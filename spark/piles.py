"""What a task has for each stream, before anything of it is sent."""

import os
import struct
import tempfile
import zlib
from collections.abc import Iterator
from hashlib import blake2b
from typing import IO, Self

IN_MEMORY_BYTES = 16 * 2**20
_BESIDE_EACH = 64
"""What Python needs for a short message beside its bytes, roughly."""
_LENGTH = struct.Struct("<I")


class Pile:
    """Messages for one stream, in the order in which they came."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.count = 0
        self.bytes = 0
        self.set_digest = 0
        """The same for the same messages in any order."""
        self.order_digest = 0
        self._recent: list[bytes] = []
        self._on_disk: list[tuple[int, int]] = []

    def add(self, message: bytes) -> None:
        digest = blake2b(message, digest_size=4).digest()
        self.set_digest = (self.set_digest + int.from_bytes(digest, "little")) & 0xFFFFFFFF
        self.order_digest = zlib.crc32(digest, self.order_digest)
        self.count += 1
        self.bytes += len(message)
        self._recent.append(message)

    def move_to(self, file: IO[bytes]) -> None:
        if not self._recent:
            return
        start = file.tell()
        for message in self._recent:
            file.write(_LENGTH.pack(len(message)))
            file.write(message)
        self._on_disk.append((start, file.tell() - start))
        self._recent = []

    def messages(self, file: IO[bytes] | None) -> Iterator[bytes]:
        for start, length in self._on_disk:
            assert file is not None
            file.seek(start)
            yield from _parsed(file.read(length))
        yield from self._recent


class Piles:
    """However many messages there are, no more of them than `in_memory_bytes` is in memory."""

    def __init__(self, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self._in_memory_bytes = in_memory_bytes
        self._piles: dict[str, Pile] = {}
        self._held = 0
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def __contains__(self, name: str) -> bool:
        return name in self._piles

    def __iter__(self) -> Iterator[Pile]:
        """In the order in which the streams were first seen."""
        return iter(self._piles.values())

    def add(self, name: str, message: bytes) -> None:
        pile = self._piles.get(name)
        if pile is None:
            pile = self._piles[name] = Pile(name)
        pile.add(message)
        self._held += len(message) + _BESIDE_EACH
        if self._held > self._in_memory_bytes:
            self._put_away()

    def messages(self, pile: Pile) -> Iterator[bytes]:
        return pile.messages(self._file)

    def _put_away(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=_sparks_folder())  # noqa: SIM115
        for pile in self._piles.values():
            pile.move_to(self._file)
        self._held = 0


def _parsed(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (length,) = _LENGTH.unpack_from(data, at)
        at += _LENGTH.size
        yield data[at : at + length]
        at += length


def _sparks_folder() -> str | None:
    """Where Spark spills to; else where the system has temporary files."""
    return os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or None
