"""A stretch of messages as the parts of a multipart body (RFC 2046, section 5.1)."""

import os
from collections.abc import Iterator, Sequence

_BLOCK_BYTES = 64 * 1024


class Multipart:
    """The boundary is 128 random bits: no content can be made to contain it."""

    def __init__(self) -> None:
        self.boundary = os.urandom(16).hex()

    @property
    def content_type(self) -> str:
        return f"multipart/mixed; boundary={self.boundary}"

    def first(self, content_type: str) -> bytes:
        return self.head(content_type)[2:]

    def head(self, content_type: str) -> bytes:
        """What stands between the part before and the content."""
        return f"\r\n--{self.boundary}\r\nContent-Type: {content_type}\r\n\r\n".encode()

    @property
    def end(self) -> bytes:
        return f"\r\n--{self.boundary}--\r\n".encode()


class Parts:
    """Cuts the stored bytes of a run of messages, as they come, into parts.

    Of a JSON message the separator is left out, which is stored behind it.
    """

    def __init__(self, head: bytes, start: int, ends: Sequence[int], *, is_json: bool) -> None:
        self._head = head
        self._position = start
        self._ends = ends
        self._next = 0
        self._begun = False
        self._left_out = 1 if is_json else 0

    def add(self, data: bytes) -> Iterator[bytes]:
        """A block at a time, so that others get their turn in between."""
        for start in range(0, len(data), _BLOCK_BYTES):
            yield self._block(data[start : start + _BLOCK_BYTES])

    def _block(self, data: bytes) -> bytes:
        out, at, limit = [], 0, self._position + len(data)
        while at < len(data):
            end = self._ends[self._next]
            if not self._begun:
                out.append(self._head)
            stop = end - self._left_out - self._position
            if stop > at:
                out.append(data[at:stop])
            self._begun = end > limit
            if self._begun:
                break
            at = end - self._position
            self._next += 1
        self._position = limit
        return b"".join(out)
