"""Whether a history can have happened to one log that loses, repeats and reorders nothing.

It knows nothing of servers: a history goes in, sentences about what cannot be come out.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from support.history import Append, History, Outcome

ALLOWED = {
    Outcome.ACKNOWLEDGED: {1},
    Outcome.REFUSED: {0},
    Outcome.UNKNOWN: {0, 1},
}


@dataclass(frozen=True)
class Order:
    """The agreed order of a history, taken apart."""

    history: History

    @cached_property
    def units(self) -> list[tuple[int, bytes]]:
        """Where each unit starts; the last one lacks its separator if it was torn."""
        separator = self.history.separator
        pieces = self.history.content.split(separator)
        units = [piece + separator for piece in pieces[:-1]] + [pieces[-1]] * bool(pieces[-1])
        return list(zip(accumulate(map(len, units), initial=0), units, strict=False))

    @cached_property
    def counts(self) -> Counter[bytes]:
        return Counter(unit for _, unit in self.units)

    @cached_property
    def places(self) -> list[tuple[int, Append]]:
        """Where appends begin, in order; an append that is there twice has two places."""
        firsts = {append.units[0]: append for append in self.history.appends}
        return [(start, firsts[unit]) for start, unit in self.units if unit in firsts]

    @cached_property
    def first_places(self) -> dict[Append, int]:
        return {append: start for start, append in reversed(self.places)}


def violations(history: History) -> list[str]:
    order = Order(history)
    return [
        *strangers(order),
        *miscounted(order),
        *scattered(order),
        *misread(order),
        *back_in_time(order),
        *out_of_sequence(order),
    ]


def strangers(order: Order) -> Iterator[str]:
    """Units that nobody sent as they are."""
    sent = {unit for append in order.history.appends for unit in append.units}
    for start, unit in order.units:
        if unit not in sent:
            yield f"nobody appended {_short(unit)}, which is at {start}"


def miscounted(order: Order) -> Iterator[str]:
    """Acknowledged: once. Refused: never. Unknown: at most once, and whole."""
    for append in order.history.appends:
        counts = {order.counts[unit] for unit in append.units}
        if len(counts) > 1 or not counts <= ALLOWED[append.outcome]:
            yield f"{_name(append)} is there {sorted(counts)} times"


def scattered(order: Order) -> Iterator[str]:
    """One append lies in one piece, before the tail that its acknowledgement told."""
    content = order.history.content
    for start, append in order.places:
        data = b"".join(append.units)
        if not content.startswith(data, start):
            yield f"{_name(append)} is not in one piece at {start}"
        if append.tail is not None and append.tail < start + len(data):
            yield f"{_name(append)} at {start} was acknowledged with the tail {append.tail}"


def misread(order: Order) -> Iterator[str]:
    """What was shown is that stretch of the agreed order, to the byte."""
    for sight in order.history.sights:
        if sight.data != order.history.content[sight.start : sight.end]:
            yield f"{sight.who} was shown something else for [{sight.start}, {sight.end})"


def back_in_time(order: Order) -> Iterator[str]:
    """What begins after a position was shown or acknowledged finds it there already."""
    known = Known(order)
    for sight in order.history.sights:
        if sight.is_tail and sight.end < known.before(sight.began):
            yield f"{sight.who} was shown a tail of the past, {sight.end}"
    for start, append in order.places:
        if start < known.before(append.began):
            yield f"{_name(append)} at {start} was overtaken by what was there before it"


class Known:
    """How much of a stream was known to be there at each moment."""

    def __init__(self, order: Order) -> None:
        shown = [(sight.ended, sight.end) for sight in order.history.sights]
        shown += [
            (append.ended, start + sum(map(len, append.units)))
            for append, start in order.first_places.items()
            if append.outcome is Outcome.ACKNOWLEDGED
        ]
        shown.sort()
        self._moments = [moment for moment, _ in shown]
        self._furthest = [0, *accumulate((position for _, position in shown), max)]

    def before(self, moment: float) -> int:
        return self._furthest[bisect_left(self._moments, moment)]


def out_of_sequence(order: Order) -> Iterator[str]:
    """A producer's appends follow each other: the next number, or the first of a new epoch."""
    last: dict[str, tuple[int, int]] = {}
    for start, append in order.places:
        if (mark := append.sequence) is None:
            continue
        epoch, seq = last.get(mark.producer, (-1, -1))
        is_next = (mark.epoch, mark.seq) == (epoch, seq + 1)
        if not is_next and not (mark.epoch > epoch and mark.seq == 0):
            yield f"{_name(append)} at {start} follows epoch {epoch}, sequence {seq}"
        last[mark.producer] = mark.epoch, mark.seq


def _name(append: Append) -> str:
    return f"{append.outcome.name.lower()} append {_short(append.units[0])}"


def _short(unit: bytes) -> str:
    return repr(unit[:40])
