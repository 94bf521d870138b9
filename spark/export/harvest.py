"""Which of the drafts that executors wrote become files."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from spark.export.planning import Segment
from spark.export.writing import Numbered, Result
from tiering.offset import Offset


@dataclass(frozen=True, slots=True)
class Crop:
    """Of each stream what was written without a hole, and where it stopped."""

    taken: list[tuple[Segment, Result]] = field(default_factory=list)
    stopped: dict[str, Result] = field(default_factory=dict)

    @property
    def files(self) -> list[tuple[str, str]]:
        return [(file.draft, file.path) for _, result in self.taken for file in result.files]

    @property
    def reached(self) -> dict[str, Offset]:
        return {
            segment.source.name: Offset(segment.source.log, result.end)
            for segment, result in self.taken
        }


def harvest(segments: Sequence[Numbered], results: Iterable[Result]) -> Crop:
    """Segments stand in the order of positions."""
    crop, found = Crop(), {result.number: result for result in results}
    for number, segment in segments:
        name, result = segment.source.name, found[number]
        if name in crop.stopped:
            continue
        if result.end > segment.start:
            crop.taken.append((segment, result))
        if result.outcome != "done":
            crop.stopped[name] = result
    return crop
