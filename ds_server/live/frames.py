"""Server-sent events: how pieces of a stream look on the wire."""

import base64
import re
from collections import OrderedDict
from dataclasses import dataclass

import orjson

from ds_server.live.flights import Flights
from ds_server.live.turns import Turns
from tiering.messages import body
from tiering.stream import ContentType, View
from tiering.streams import Streams

LINE_END = re.compile(rb"\r\n|\r|\n")
_MOST_BYTES = 16 * 1024 * 1024
LONGEST_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """Events as one chunk of an HTTP body. `held` is the beginning of a character whose rest is
    still to come."""

    chunk: bytes
    held: bytes

    @property
    def events(self) -> bytes:
        return self.chunk[self.chunk.index(b"\n") + 1 : -2]


_Key = tuple[int, ...]


class Frames:
    """Frames that were read from storage, each read and encoded once for all who want it."""

    def __init__(self, streams: Streams, turns: Turns, capacity_bytes: int = _MOST_BYTES) -> None:
        self.streams = streams
        self._capacity = capacity_bytes
        self._bytes = 0
        self._kept: OrderedDict[_Key, Frame] = OrderedDict()
        self._flights: Flights[_Key, Frame] = Flights(turns)

    async def frame(self, view: View, held: bytes, cursor: int) -> Frame:
        """The events for `view`, continuing with what the frame before it held back."""
        key = _key(view, held, cursor)
        kept = self._kept.get(key)
        if kept is not None:
            self._kept.move_to_end(key)
            return kept
        return await self._flights.do(key, lambda: self._read(key, view, held, cursor))

    async def _read(self, key: _Key, view: View, held: bytes, cursor: int) -> Frame:
        frame = encode(view, held + await self.streams.read_whole(view), cursor)
        self._kept[key] = frame
        self._bytes += len(frame.chunk)
        while self._bytes > self._capacity and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= len(oldest.chunk)
        return frame


def encode(view: View, stored: bytes, cursor: int) -> Frame:
    """A data event, if there is data, and the control event that must follow it."""
    content_type = view.stream.content_type
    held = b""
    if content_type.is_text and not content_type.is_json and not view.at_closed_end:
        whole = complete_text(stored)
        stored, held = stored[:whole], stored[whole:]
    data = data_event(content_type, stored) if stored else b""
    control = control_event(view, len(held), cursor)
    return Frame(chunk(data + control), held)


def chunk(events: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(events), events)


def _key(view: View, held: bytes, cursor: int) -> _Key:
    stream = view.stream
    return (stream.log, view.start, view.end, stream.tail, stream.closed, len(held), cursor)


def data_event(content_type: ContentType, stored: bytes) -> bytes:
    if not content_type.is_text:
        return b"event: data\ndata:%b\n\n" % base64.b64encode(stored)
    lines = LINE_END.split(body(content_type, stored))
    return b"event: data\n%b\n" % b"".join(map(_data_line, lines))


def _data_line(line: bytes) -> bytes:
    """A reader takes one space after the colon away: a line that begins with one gets another."""
    return b"data: %b\n" % line if line.startswith(b" ") else b"data:%b\n" % line


def control_event(view: View, held: int, cursor: int) -> bytes:
    control: dict[str, str | bool] = {"streamNextOffset": str(view.stream.at(view.end - held))}
    if view.at_closed_end:
        control["streamClosed"] = True
    else:
        control["streamCursor"] = str(cursor)
    if view.at_tail:
        control["upToDate"] = True
    return b"event: control\ndata:%b\n\n" % orjson.dumps(control)


def complete_text(stored: bytes) -> int:
    """How many bytes end with a whole UTF-8 character; a split one waits for its rest."""
    for back in range(1, min(4, len(stored) + 1)):
        byte = stored[-back]
        if byte < 0x80:
            break
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return len(stored) - back if width > back else len(stored)
    return len(stored)
