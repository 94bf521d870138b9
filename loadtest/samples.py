"""All measurements of one bench, and what they say together."""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from loadtest.config import System
from loadtest.measurement import Outcome


@dataclass(frozen=True, slots=True)
class Sample:
    round: int
    workload: str
    system: str
    outcome: Outcome

    @property
    def is_valid(self) -> bool:
        return not self.outcome.errors


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    low: float
    high: float


@dataclass(slots=True)
class Samples:
    """Only valid ones count."""

    taken: list[Sample] = field(default_factory=list)
    facts: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def spread(self, workload: str, system: str, figure: str) -> Spread | None:
        values = [
            figures[figure] for figures in self._figures(workload, system) if figure in figures
        ]
        return Spread(statistics.median(values), min(values), max(values)) if values else None

    def ratio(self, workload: str, system: str, figure: str, to: str) -> float | None:
        """Of the medians."""
        mine, other = self.spread(workload, system, figure), self.spread(workload, to, figure)
        return mine.median / other.median if mine and other and other.median else None

    def label(self, system: System) -> str:
        return system.label.format_map(_Known(self.facts.get(system.name, {})))

    def has(self, workload: str, system: str) -> bool:
        return any((one.workload, one.system) == (workload, system) for one in self.taken)

    def invalid(self) -> list[Sample]:
        return [sample for sample in self.taken if not sample.is_valid]

    def _figures(self, workload: str, system: str) -> Iterator[Mapping[str, float]]:
        for sample in self.taken:
            if sample.is_valid and (sample.workload, sample.system) == (workload, system):
                yield sample.outcome.figures


class _Known(dict[str, str]):
    def __missing__(self, fact: str) -> str:
        return "?"
