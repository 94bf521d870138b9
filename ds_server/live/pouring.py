"""Events that are too long to be held in memory whole: written as they are read."""

import base64
from collections.abc import AsyncIterator
from typing import Protocol

from ds_server.live.frames import LINE_END, complete_text, control_event
from ds_server.read import body_pieces
from tiering.stream import ContentType, View
from tiering.streams import Streams

_LONGEST_CHARACTER = 4


class Pouring:
    """The same events as a frame of the view would have. `held` is known at the end."""

    def __init__(self, streams: Streams, view: View, held: bytes, cursor: int) -> None:
        self._streams = streams
        self._view = view
        self._cursor = cursor
        self.held = held

    async def events(self) -> AsyncIterator[bytes]:
        lines = _lines_for(self._view.stream.content_type)
        yield b"event: data\n"
        async for piece in self._whole_characters():
            yield lines.add(piece)
        yield lines.end() + b"\n" + control_event(self._view, len(self.held), self._cursor)

    async def _whole_characters(self) -> AsyncIterator[bytes]:
        """For texts the last bytes stay back until it is known what they belong to."""
        content_type = self._view.stream.content_type
        back = _LONGEST_CHARACTER if content_type.is_text and not content_type.is_json else 0
        async for piece in body_pieces(self._streams, self._view):
            ready = self.held + piece
            end = max(0, len(ready) - back)
            self.held = ready[end:]
            yield ready[:end]
        whole = len(self.held) if self._view.at_closed_end else complete_text(self.held)
        last, self.held = self.held[:whole], self.held[whole:]
        yield last


class Lines(Protocol):
    def add(self, piece: bytes) -> bytes: ...

    def end(self) -> bytes: ...


def _lines_for(content_type: ContentType) -> Lines:
    return TextLines() if content_type.is_text else Base64Line()


class TextLines:
    def __init__(self) -> None:
        self._is_open = False
        self._after_return = False

    def add(self, piece: bytes) -> bytes:
        if not piece:
            return b""
        if self._after_return:
            piece = piece.removeprefix(b"\n")
            self._after_return = False
        self._after_return = piece.endswith(b"\r")
        first, *others = LINE_END.split(piece)
        return self._more(first) + b"".join([self.end() + self._more(line) for line in others])

    def end(self) -> bytes:
        beginning = b"" if self._is_open else b"data:"
        self._is_open = False
        return beginning + b"\n"

    def _more(self, text: bytes) -> bytes:
        """A reader takes one space after the colon away."""
        if self._is_open or not text:
            return text
        self._is_open = True
        return b"data: " + text if text.startswith(b" ") else b"data:" + text


class Base64Line:
    def __init__(self) -> None:
        self._rest = b""
        self._beginning = b"data:"

    def add(self, piece: bytes) -> bytes:
        ready = self._rest + piece
        end = len(ready) - len(ready) % 3
        self._rest = ready[end:]
        return self._begun() + base64.b64encode(ready[:end])

    def end(self) -> bytes:
        return self._begun() + base64.b64encode(self._rest) + b"\n"

    def _begun(self) -> bytes:
        beginning, self._beginning = self._beginning, b""
        return beginning
