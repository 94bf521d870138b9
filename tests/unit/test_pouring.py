"""Long events, written as they are read, are the same as those that are made whole."""

from collections.abc import AsyncIterator
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_server.live.frames import encode
from ds_server.live.pouring import Pouring
from tiering.stream import ContentType, Lifetime, Stream, View
from tiering.streams import Streams

TYPES = ["text/plain", "application/octet-stream", "application/json"]
PIECES = st.lists(
    st.sampled_from([b" ", b"\r", b"\n", b"a", "é".encode(), "\U0001f600".encode(), b"long" * 9]),
    min_size=1,
).map(b"".join)


class Pieces:
    """A storage that gives what it holds in pieces of one length."""

    def __init__(self, stored: bytes, length: int) -> None:
        self._stored = stored
        self._length = length

    async def read(self, view: View) -> AsyncIterator[bytes]:
        for start in range(0, len(self._stored), self._length):
            yield self._stored[start : start + self._length]


def view_of(content_type: str, stored: bytes, closed: bool) -> View:
    end = len(stored)
    stream = Stream(
        "s", 7, (), ContentType(content_type), Lifetime(), None, closed, end, 0, 0, 0, 1024, 0
    )
    return View(stream, 0, end)


@pytest.mark.parametrize("content_type", TYPES)
@given(stored=PIECES, cut=st.integers(0, 3), length=st.integers(1, 40), closed=st.booleans())
async def test_pieces_of_any_length_give_the_events_of_a_frame(
    content_type: str, stored: bytes, cut: int, length: int, closed: bool
) -> None:
    stored = b"begin" + stored[: len(stored) - cut]
    view = view_of(content_type, stored, closed)
    whole = encode(view, stored, 1)
    pouring = Pouring(cast(Streams, Pieces(stored, length)), view, b"", 1)
    assert b"".join([events async for events in pouring.events()]) == whole.events
    assert pouring.held == whole.held


@given(text=st.text(min_size=1), at=st.integers(0, 3))
async def test_what_was_held_back_before_comes_first(text: str, at: int) -> None:
    stored = text.encode()
    held, rest = stored[:at], stored[at:] + b"end"
    view = view_of("text/plain", rest, closed=False)
    whole = encode(view, held + rest, 1)
    pouring = Pouring(cast(Streams, Pieces(rest, 5)), view, held, 1)
    assert b"".join([events async for events in pouring.events()]) == whole.events
    assert pouring.held == whole.held
