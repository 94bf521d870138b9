"""Server-sent events on the wire."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_server.live.frames import complete_text, data_event, encode
from tiering.stream import ContentType, Lifetime, Stream, View

TEXT = ContentType("text/plain")


def view(start: int, end: int, *, closed: bool = False) -> View:
    stream = Stream("s", 7, (), TEXT, Lifetime(), None, closed, end, 0, 0, 0, 1024, 0)
    return View(stream, start, end)


def received(event: bytes) -> bytes:
    """What an event stream reader makes of one data event."""
    name, *lines, end, _ = event.split(b"\n")
    assert (name, end) == (b"event: data", b"")
    assert all(line.startswith(b"data:") for line in lines)
    values = [line.removeprefix(b"data:") for line in lines]
    return b"\n".join(value.removeprefix(b" ") for value in values)


@given(st.text())
def test_no_payload_can_pose_as_an_event(text: str) -> None:
    payload = text.encode()
    expected = payload.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert received(data_event(TEXT, payload)) == expected


@pytest.mark.parametrize("payload", [b" leading", b"  two", b"a\n b", b"\n"])
def test_leading_spaces_and_empty_lines_survive(payload: bytes) -> None:
    assert received(data_event(TEXT, payload)) == payload


@given(st.binary(min_size=1))
def test_other_types_travel_as_base64(payload: bytes) -> None:
    event = data_event(ContentType("image/png"), payload)
    assert base64.b64decode(received(event)) == payload


@given(st.text(min_size=1), st.data())
def test_a_character_is_never_split_between_events(text: str, data: st.DataObject) -> None:
    raw = text.encode()
    at = data.draw(st.integers(0, len(raw)))
    first = encode(view(0, at), raw[:at], 1)
    second = encode(view(at, len(raw), closed=True), first.held + raw[at:], 1)
    assert len(first.held) < 4
    for frame in (first, second):
        frame.events.decode()
    assert complete_text(raw) == len(raw)


def test_held_bytes_are_not_acknowledged() -> None:
    frame = encode(view(0, 3), "aé".encode()[:2], 1)
    assert frame.held == "é".encode()[:1]
    assert b'"streamNextOffset":"0000000000000007_0000000000000002"' in frame.events
