"""What came out: for the terminal, and as Markdown for the documentation."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from loadtest import bars, tables
from loadtest.config import Config, System
from loadtest.fan_out import MESSAGES
from loadtest.samples import Samples
from loadtest.tables import TIMES, Row
from loadtest.workloads import FIGURES, WORKLOADS, Workload

BEGIN, END = "<!-- bench: begin -->", "<!-- bench: end -->"
SATURATED = 0.9

WITHOUT_SPREAD = ("cpu_us", "server_mb", "store_mb")


class Report:
    def __init__(self, config: Config, samples: Samples, machine: Mapping[str, str]) -> None:
        self._config = config
        self._samples = samples
        self._machine = machine
        self._baselines = [system for system in config.system if system.baseline]

    def text(self) -> str:
        shown = [line for table in self._tables() for line in [*tables.aligned(table), ""]]
        return "\n".join([*self._facts(), "", *shown, *self._conclusions()])

    def markdown(self) -> str:
        facts = [f"- {line}" for line in self._facts()]
        shown = [line for table in self._tables() for line in [*tables.markdown(table), ""]]
        conclusions = [f"- {line}" for line in self._conclusions()]
        return "\n".join([*facts, "", *shown, *conclusions])

    def _facts(self) -> Iterator[str]:
        yield from (f"{name}: {value}" for name, value in self._machine.items())
        for system in self._config.system:
            said = self._samples.facts.get(system.name, {})
            facts = [f"{name} {value}" for name, value in said.items() if name != "workers"]
            if facts:
                yield f"{self._samples.label(system)} ({'; '.join(facts)})"

    def _tables(self) -> Iterator[list[Row]]:
        """One for all workloads that have the same figures."""
        measured = [name for name in WORKLOADS if self._systems(name)]
        for columns, names in itertools.groupby(measured, lambda name: WORKLOADS[name].columns):
            yield list(self._rows(columns, list(names)))

    def _rows(self, columns: Sequence[str], workloads: Sequence[str]) -> Iterator[Row]:
        taking_part = [system for name in workloads for system in self._systems(name)]
        baselines = [system for system in self._baselines if system in taking_part]
        ratios = [f"{TIMES} {self._samples.label(system)}" for system in baselines]
        yield ["", *(FIGURES[figure] for figure in columns), *ratios]
        for name in workloads:
            yield [self._heading(WORKLOADS[name], baselines)]
            yield from (self._row(name, system, baselines) for system in self._systems(name))

    def _heading(self, workload: Workload, baselines: Sequence[System]) -> str:
        compared = f" ({TIMES} is of {FIGURES[workload.compared]})" if baselines else ""
        return workload.title + compared

    def _row(self, workload: str, system: System, baselines: Sequence[System]) -> Row:
        shown = WORKLOADS[workload]
        figures = [self._cell(workload, system, figure) for figure in shown.columns]
        ratios = [
            self._samples.ratio(workload, system.name, shown.compared, to.name) for to in baselines
        ]
        return [self._samples.label(system), *figures, *map(tables.ratio, ratios)]

    def _cell(self, workload: str, system: System, figure: str) -> str:
        spread = self._samples.spread(workload, system.name, figure)
        return (tables.median if figure in WITHOUT_SPREAD else tables.with_spread)(spread)

    def _systems(self, workload: str) -> list[System]:
        return [one for one in self._config.system if self._samples.has(workload, one.name)]

    def _conclusions(self) -> Iterator[str]:
        for verdict in bars.verdicts(self._config, self._samples):
            yield bars.sentence(verdict, self._config, self._samples)
        yield from self._shortened()
        yield from self._smaller()
        yield from self._doubts()

    def _shortened(self) -> Iterator[str]:
        for system, name in itertools.product(self._config.system, WORKLOADS):
            told = self._samples.spread(name, system.name, "messages")
            if told and told.low < MESSAGES:
                where = f"{self._samples.label(system)}, {WORKLOADS[name].title}"
                yield f"{where}: cut short after {told.low:.0f} messages at worst"

    def _smaller(self) -> Iterator[str]:
        for system in self._config.system:
            for workload, size in system.sizes.items():
                if self._samples.has(workload, system.name):
                    shown, label = WORKLOADS[workload], self._samples.label(system)
                    unit = FIGURES[shown.columns[0]]
                    yield f"{label}, {shown.title}: {size:,} {unit} instead of {shown.size:,}"

    def _doubts(self) -> Iterator[str]:
        for sample in self._samples.taken:
            where = f"{sample.workload}, {sample.system}, round {sample.round + 1}"
            if sample.outcome.generator_busy > SATURATED:
                yield f"a lower bound, because the generator was busy all the time: {where}"
            for error, count in sample.outcome.errors.items():
                yield f"INVALID and left out: {where}: {count} times {error}"


def write_into(document: Path, text: str) -> None:
    """Replaces what stands between the markers."""
    before, begin, rest = document.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"{document.name} lacks the markers {BEGIN} and {END}")
    document.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
