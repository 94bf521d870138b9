"""Server-sent events: how pieces of a stream look on the wire."""

import base64
import re
from collections import OrderedDict
from dataclasses import dataclass

import orjson

from tiering.messages import body
from tiering.single_flight import SingleFlight
from tiering.stream import ContentType, View
from tiering.streams import Streams

_LINE_END = re.compile(rb"\r\n|\r|\n")
_MOST_KEPT = 16
_LARGEST_KEPT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Frame:
    """Events for the wire. `held` is the beginning of a character whose rest is still to come."""

    wire: bytes
    held: bytes
    chunked: bytes


_Key = tuple[int, ...]


class Frames:
    """The frames of one stream, each encoded once for all its followers."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams
        self._kept: OrderedDict[_Key, Frame] = OrderedDict()
        self._flights: SingleFlight[_Key, Frame] = SingleFlight()

    async def frame(self, view: View, stored: bytes | None, held: bytes, cursor: int) -> Frame:
        """The events for `view`, continuing with what the frame before it held back."""
        key = _key(view, held, cursor)
        kept = self._kept.get(key)
        if kept is not None:
            return kept
        if stored is not None:
            return self._keep(key, encode(view, held + stored, cursor))
        return await self._flights.do(key, lambda: self._read(key, view, held, cursor))

    async def _read(self, key: _Key, view: View, held: bytes, cursor: int) -> Frame:
        stored = await self._streams.read_whole(view)
        return self._keep(key, encode(view, held + stored, cursor))

    def _keep(self, key: _Key, frame: Frame) -> Frame:
        if len(frame.wire) <= _LARGEST_KEPT_BYTES:
            self._kept[key] = frame
            if len(self._kept) > _MOST_KEPT:
                self._kept.popitem(last=False)
        return frame


def encode(view: View, stored: bytes, cursor: int) -> Frame:
    """A data event, if there is data, and the control event that must follow it."""
    content_type = view.stream.content_type
    held = b""
    if content_type.is_text and not content_type.is_json and not view.at_closed_end:
        whole = complete_text(stored)
        stored, held = stored[:whole], stored[whole:]
    control = control_event(view, len(held), cursor)
    wire = data_event(content_type, stored) + control if stored else control
    return Frame(wire, held, b"%x\r\n%b\r\n" % (len(wire), wire))


def _key(view: View, held: bytes, cursor: int) -> _Key:
    stream = view.stream
    return (stream.log, view.start, view.end, stream.tail, stream.closed, len(held), cursor)


def data_event(content_type: ContentType, stored: bytes) -> bytes:
    if not content_type.is_text:
        return b"event: data\ndata:%b\n\n" % base64.b64encode(stored)
    lines = _LINE_END.split(body(content_type, stored))
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
