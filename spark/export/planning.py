"""What of each stream is still to be exported, and who does which part of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from spark.planning import Sealed, Source
from tiering.cold.catalog import SealedStream
from tiering.cold.cover import Slice
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.offset import Offset

TASK_COST = 128 * 2**20
_SMALL_TASK_COST = 8 * 2**20

Range = tuple[Offset, Offset]


@dataclass(frozen=True, slots=True)
class Segment:
    """What one task exports of a stream: slices that follow each other."""

    source: Source
    slices: tuple[Slice, ...]

    @property
    def work(self) -> list[Sealed]:
        return [Sealed(self.source, one) for one in self.slices]

    @property
    def start(self) -> int:
        return self.slices[0].start

    @property
    def end(self) -> int:
        return self.slices[-1].end

    @property
    def cost(self) -> int:
        return sum(one.cost for one in self.work)


Task = tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class Due:
    """A stream from where its last export ended. `gap` is not retained any more and was never
    exported; `superseded` was exported, and a recovery did not find it again. `is_anew`: what was
    exported under this name is another stream's."""

    source: Source
    start: Offset
    slices: tuple[Slice, ...]
    gap: Range | None = None
    superseded: Range | None = None
    is_anew: bool = False

    @property
    def name(self) -> str:
        return self.source.name

    @property
    def end(self) -> Offset:
        end = self.slices[-1].end if self.slices else self.start.position
        return Offset(self.start.log, end)

    @property
    def size(self) -> int:
        return self.end.position - self.start.position

    def segments(self, most: int) -> Iterator[Segment]:
        """Pieces are not divided, and what fits into one task stays together."""
        whole = Segment(self.source, self.slices)
        if whole.cost <= most:
            yield whole
            return
        ready: list[Slice] = []
        cost = 0
        for sealed in whole.work:
            if ready and cost + sealed.cost > most:
                yield Segment(self.source, tuple(ready))
                ready, cost = [], 0
            ready.append(sealed.slice)
            cost += sealed.cost
        yield Segment(self.source, tuple(ready))


def due(stream: SealedStream, exported: Offset | None) -> Due:
    manifest = stream.manifest
    reached, superseded, is_anew = _reached(manifest, exported)
    if stream.end < reached:
        raise Corrupt(f"{stream.name} ends at {stream.at(stream.end)}, before what was exported.")
    start = max(reached, stream.start)
    slices = (replace(one, start=max(one.start, start)) for one in stream.slices if one.end > start)
    return Due(
        Source(manifest.name, manifest.log, manifest.content_type),
        stream.at(start),
        tuple(slices),
        (stream.at(reached), stream.at(start)) if reached < start else None,
        superseded,
        is_anew,
    )


def _reached(manifest: Manifest, exported: Offset | None) -> tuple[int, Range | None, bool]:
    """A recovered stream goes on where its past ended, by the rules of the HTTP surface."""
    if exported is None:
        return 0, None, False
    for log, border in manifest.own_logs():
        if log == exported.log and (border is None or exported.position <= border):
            return exported.position, None, False
        if log == exported.log and border is not None:
            return border, (Offset(log, border), exported), False
    return 0, None, True


def tasks(streams: Iterable[Due], parallelism: int, largest: int = TASK_COST) -> Iterator[Task]:
    """Many small streams share a task, a large one has several. Little work is spread thinner."""
    wanted = [stream for stream in streams if stream.slices]
    total = sum(Segment(one.source, one.slices).cost for one in wanted)
    most = min(largest, max(_SMALL_TASK_COST, total // parallelism))
    ready: list[Segment] = []
    cost = 0
    for segment in (segment for one in wanted for segment in one.segments(most)):
        if ready and cost + segment.cost > most:
            yield tuple(ready)
            ready, cost = [], 0
        ready.append(segment)
        cost += segment.cost
    if ready:
        yield tuple(ready)


def batches(tasks: Sequence[Task], count: int) -> Iterator[Sequence[Task]]:
    """What is committed together: what a run that dies has done in vain."""
    for first in range(0, len(tasks), count):
        yield tasks[first : first + count]
