"""Which streams a batch serves that cannot serve all."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from spark.advance import Begun

PieceEnds = Callable[[Begun, int], Awaitable[list[int]]]
"""Where the pieces end that begin before a position, in order."""


@dataclass(slots=True)
class Turns:
    """`served` is the stream that was served last: the next batch begins behind it."""

    served: str = ""

    async def limited(
        self,
        begun: Sequence[Begun],
        ends: Mapping[str, int],
        most_bytes: int,
        piece_ends: PieceEnds,
    ) -> dict[str, int]:
        """Where the batch ends of each stream. All but one are served wholly or not at all, so
        that the pieces of one alone have to be looked at."""
        limited = {one.name: one.position for one in begun}
        served, left = self.served, most_bytes
        for one in sorted(begun, key=lambda one: (one.name <= self.served, one.name)):
            end = ends[one.name]
            if is_last := end - one.position > left:
                found = await piece_ends(one, one.position + left)
                end = min(end, _cut(one.position, left, found, must_move=left == most_bytes))
            if end > one.position:
                served, left = one.name, left - (end - one.position)
                limited[one.name] = end
            if is_last or not left:
                break
        self.served = served
        return limited


def _cut(start: int, size: int, piece_ends: list[int], *, must_move: bool) -> int:
    """The end of the last piece that fits. A first one that does not fit is taken whole."""
    fitting = [end for end in piece_ends if end <= start + size]
    if not fitting and must_move:
        fitting = piece_ends[:1]
    return fitting[-1] if fitting else start
