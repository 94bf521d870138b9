"""What followers are told."""

import time
from collections.abc import Callable, Hashable
from typing import TypeVar, cast

from cdn.cursor import cursor
from ds_server.live.frames import Frame, encode
from tiering.stream import View

T = TypeVar("T")

_MOST_SHARED = 16


class News:
    """The next piece of a stream. `stored` is there when it came with the wake-up."""

    __slots__ = ("_shared", "heard_at", "stored", "view")

    def __init__(
        self, view: View, stored: bytes | None = None, heard_at: float | None = None
    ) -> None:
        self.view = view
        self.stored = stored
        self.heard_at = heard_at
        self._shared: dict[Hashable, object] = {}

    def frame(self, held: bytes, theirs: str | None) -> Frame:
        return self.shared((held, theirs), lambda: self._encode(held, theirs))

    def shared(self, key: Hashable, make: Callable[[], T]) -> T:
        """Made once for all who want the same of it."""
        known = self._shared.get(key)
        if known is None:
            known = make()
            if len(self._shared) < _MOST_SHARED:
                self._shared[key] = known
        return cast(T, known)

    def _encode(self, held: bytes, theirs: str | None) -> Frame:
        assert self.stored is not None
        number = cursor(time.time(), self.view.stream.name, theirs)
        return encode(self.view, held + self.stored, number)
