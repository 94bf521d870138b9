"""What is to be reached, and whether it was."""

from collections.abc import Iterator
from dataclasses import dataclass

from loadtest.config import Bar, Config, System, matches
from loadtest.samples import Samples
from loadtest.tables import TIMES, number
from loadtest.workloads import FIGURES, WORKLOADS


@dataclass(frozen=True, slots=True)
class Verdict:
    """`value` is a ratio where the bar is one."""

    bar: Bar
    workload: str
    system: System
    value: float

    @property
    def is_reached(self) -> bool:
        high_enough = self.bar.at_least is None or self.value >= self.bar.at_least
        return high_enough and (self.bar.at_most is None or self.value <= self.bar.at_most)


def verdicts(config: Config, samples: Samples) -> Iterator[Verdict]:
    judged = [system for system in config.system if system.judged]
    for bar in config.bar:
        for workload in (name for name in WORKLOADS if matches(name, bar.workloads)):
            for system in judged:
                value = _value(bar, workload, system.name, samples)
                if value is not None:
                    yield Verdict(bar, workload, system, value)


def sentence(verdict: Verdict, config: Config, samples: Samples) -> str:
    bar = verdict.bar
    result = "reached:" if verdict.is_reached else "NOT reached:"
    limit = f"at least {bar.at_least:g}" if bar.at_least is not None else f"at most {bar.at_most:g}"
    times = f"{TIMES} {samples.label(config.named(bar.times))}" if bar.times else ""
    what = f"{WORKLOADS[verdict.workload].title}, {FIGURES[bar.figure]} {limit}{times}"
    return f"{result} {what}: {number(verdict.value)} ({samples.label(verdict.system)})"


def _value(bar: Bar, workload: str, system: str, samples: Samples) -> float | None:
    """Ratios are of medians; a plain limit must hold in every round."""
    if bar.times:
        return samples.ratio(workload, system, bar.figure, bar.times)
    spread = samples.spread(workload, system, bar.figure)
    if spread is None:
        return None
    return spread.low if bar.at_least is not None else spread.high
