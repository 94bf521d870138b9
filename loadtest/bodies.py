"""Bodies of answers that are too long to be kept: handed on as they come."""

from collections.abc import Iterator, Mapping
from typing import Protocol

LONGEST_LINE = 64


class Body(Protocol):
    @property
    def ended(self) -> bool: ...

    def take(self, data: memoryview) -> Iterator[memoryview]:
        """What of these bytes is content."""
        ...


def announced_by(headers: Mapping[str, str]) -> Body:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return ChunkedBody()
    return SizedBody(int(headers.get("content-length", "0")))


class SizedBody:
    def __init__(self, length: int) -> None:
        self._left = length

    @property
    def ended(self) -> bool:
        return not self._left

    def take(self, data: memoryview) -> Iterator[memoryview]:
        self._left -= len(data)
        yield data


class ChunkedBody:
    def __init__(self) -> None:
        self._left = 0
        self._line = b""
        self._is_last = False
        self.ended = False

    def take(self, data: memoryview) -> Iterator[memoryview]:
        while data:
            piece = data[: self._left]
            self._left -= len(piece)
            data = data[len(piece) :]
            if piece:
                yield piece
            else:
                data = self._take_line(data)

    def _take_line(self, data: memoryview) -> memoryview:
        """A chunk's size, or the empty line after a chunk."""
        line, end_of_line, _ = bytes(data[:LONGEST_LINE]).partition(b"\n")
        self._line += line
        if end_of_line:
            self._end_line(self._line.strip())
            self._line = b""
        return data[len(line) + len(end_of_line) :]

    def _end_line(self, line: bytes) -> None:
        if line:
            self._left = int(line.split(b";")[0], 16)
            self._is_last = not self._left
        elif self._is_last:
            self.ended = True
