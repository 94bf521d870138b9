"""Which system does what, in which round, and how much of it."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loadtest.config import Config, System
from loadtest.workloads import WORKLOADS

ROUNDS = 5
SPARE_DISK_BYTES = 2**30


@dataclass(frozen=True, slots=True)
class Plan:
    """Long workloads have rounds of their own."""

    systems: Sequence[System]
    workloads: Sequence[str]
    rounds: int
    long_rounds: int
    secs: float
    scale: float

    def steps(self) -> Iterator[tuple[int, str, System]]:
        """Systems alternate within a round, and each round begins with another one."""
        for number in range(max(self.rounds, self.long_rounds)):
            for workload in self._workloads_of(number):
                able = [system for system in self.systems if system.takes_part_in(workload)]
                first = number % max(1, len(able))
                for system in [*able[first:], *able[:first]]:
                    yield number, workload, system

    def rounds_of(self, workload: str) -> int:
        return self.long_rounds if WORKLOADS[workload].is_long else self.rounds

    def size_of(self, workload: str, system: System) -> int:
        """Zero where a workload has none."""
        usual = WORKLOADS[workload].size
        return math.ceil(system.sizes.get(workload, usual) * self.scale)

    def disk_bytes(self) -> int:
        """At the most demanding moment."""
        needs = (
            self.size_of(workload, system) * WORKLOADS[workload].disk_bytes
            for _, workload, system in self.steps()
        )
        return max(needs, default=0) + SPARE_DISK_BYTES

    def lacks(self) -> list[str]:
        """Said to whoever reads the figures."""
        left_out = [name for name in WORKLOADS if name not in self.workloads]
        return [f"Not measured in this run: {', '.join(left_out)}."] if left_out else []

    def is_whole(self, setup: Config) -> bool:
        """With everything that there is, as long as it takes."""
        complete = (len(setup.system), len(WORKLOADS))
        return (
            (len(self.systems), len(self.workloads)) == complete
            and self.rounds >= ROUNDS
            and self.scale >= 1
        )

    def _workloads_of(self, number: int) -> list[str]:
        return [name for name in self.workloads if number < self.rounds_of(name)]
