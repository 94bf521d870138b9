"""Which task reads what of a batch: the same whenever the batch is planned."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from spark.planning import REQUEST_BYTES, Partition, Sealed, Source
from tiering.cold.cover import Slice


@dataclass(frozen=True, slots=True)
class Share:
    """What a batch has of one stream, whose chunks end near the lines of a grid."""

    source: Source
    grid: int
    slices: tuple[Slice, ...]

    def chunks(self) -> Iterator[tuple[Sealed, ...]]:
        """All pieces of a chunk begin between the same two lines, be they many or one."""
        for _, pieces in groupby(self.slices, lambda one: one.piece.start // self.grid):
            yield tuple(Sealed(self.source, piece) for piece in pieces)


def laid_out(shares: Iterable[Share], partition_bytes: int) -> Iterator[Partition]:
    """Whole chunks, as many as `partitionBytes` allows, and at least one. Sinks may tell a batch
    that comes again by what each task has, so pieces that were merged since must not matter."""
    ready: list[Sealed] = []
    cost = 0
    for chunk in (chunk for share in shares for chunk in share.chunks()):
        size = chunk[-1].slice.end - chunk[0].slice.start + REQUEST_BYTES
        if ready and cost + size > partition_bytes:
            yield Partition(tuple(ready))
            ready, cost = [], 0
        ready += chunk
        cost += size
    if ready:
        yield Partition(tuple(ready))
