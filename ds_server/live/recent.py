"""The latest pieces of one log, for those who are at its end or a little behind."""

from dataclasses import replace

from ds_server.live.news import News
from tiering.hot.wake import State, Wake
from tiering.offset import Offset
from tiering.stream import Stream, View

_MOST_BYTES = 32 * 1024
_MOST_PIECES = 64


class Recent:
    """Pieces follow one another without a gap; the last one ends at the tail of `stream`."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self._pieces: dict[int, bytes] = {}
        self._bytes = 0
        self._heard_at = 0.0
        self._news: dict[int, News] = {}

    def add(self, wake: Wake, heard_at: float) -> bool:
        """False when the wake-up does not tell enough to go on with."""
        if self._is_known(wake):
            return True
        if not self._continues(wake):
            return False
        self.stream = replace(self.stream, tail=wake.end, closed=wake.state is State.CLOSED)
        self._keep(wake)
        self._heard_at = heard_at
        self._news = {}
        return True

    def forget_before(self, position: int) -> None:
        """It is not retained any more."""
        self.stream = replace(self.stream, earliest=position)
        for start in [start for start in self._pieces if start < position]:
            self._bytes -= len(self._pieces.pop(start))
            self._news.pop(start, None)

    def reaches_back_to(self, place: Offset) -> bool:
        """Whether all that follows the place is here."""
        if place.log != self.stream.log:
            return False
        at_end = place.position == self.stream.tail and not self.stream.closed
        return at_end or place.position in self._pieces

    def since(self, position: int) -> News | None:
        """All that follows a position, in one piece; None when that is nothing, or not here."""
        news = self._news.get(position)
        if news is None and position in self._pieces:
            stored = b"".join([data for at, data in self._pieces.items() if at >= position])
            view = View(self.stream, position, self.stream.tail)
            news = self._news[position] = News(view, stored, self._heard_at)
        return news

    def _is_known(self, wake: Wake) -> bool:
        if wake.log != self.stream.log:
            return wake.log < self.stream.log
        return wake.end <= self.stream.tail and wake.state is State.OPEN

    def _continues(self, wake: Wake) -> bool:
        """A lifetime is measured by the hot tier's clock, so such streams are looked up; and
        what crosses the end of a chunk is read in two pieces."""
        return (
            wake.log == self.stream.log
            and wake.start == self.stream.tail
            and wake.state is not State.DELETED
            and wake.carries_data
            and wake.cut is None
            and not self.stream.lifetime.ends
        )

    def _keep(self, wake: Wake) -> None:
        self._pieces[wake.start] = wake.data
        self._bytes += len(wake.data)
        while len(self._pieces) > 1 and self._is_too_much:
            oldest = next(iter(self._pieces))
            self._bytes -= len(self._pieces.pop(oldest))

    @property
    def _is_too_much(self) -> bool:
        return self._bytes > _MOST_BYTES or len(self._pieces) > _MOST_PIECES
