"""What the charts show. They are drawn by another process, in an environment of its own."""

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from loadtest.config import HERE, Config, System, matches
from loadtest.samples import Samples, Spread
from loadtest.tables import TIMES, number
from loadtest.workloads import FIGURES, WORKLOADS

PYTHON = HERE.parent / ".venv-load/bin/python"
MEMORY, STORE = "server_mb", "store_mb"


@dataclass(frozen=True, slots=True)
class Bar:
    """`low` and `high` are the least and the most of all rounds; `on_top` is what Redis adds."""

    label: str
    value: float
    low: float
    high: float
    says: str
    on_top: float = 0.0


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    bars: list[Bar]


@dataclass(frozen=True, slots=True)
class Chart:
    name: str
    title: str
    axis: str
    panels: list[Panel]


@dataclass(frozen=True, slots=True)
class Theme:
    name: str
    title: str
    figure: str
    workloads: tuple[str, ...]
    better: str


THEMES = (
    Theme("appends", "Appends of 256 bytes", "rate", ("append-*",), "more"),
    Theme("round-trips", "From an append to a waiting long-poll", "p50_ms", ("rtt",), "less"),
    Theme("followers", "Delivery by server-sent events", "p99_ms", ("sse-*",), "less"),
    Theme(
        "tokens", "AI tokens, from their making to both followers", "p99_ms", ("tokens",), "less"
    ),
    Theme("client", "Appends through the official client", "rate", ("small", "large"), "more"),
    Theme("replay", "Replaying history", "replay_mb", ("history", "catch-up"), "more"),
    Theme("memory", "Memory, Redis in a lighter shade", "server_mb", ("*",), "less"),
)


def charts(config: Config, samples: Samples) -> Iterator[Chart]:
    """Those for which something was measured."""
    for theme in THEMES:
        names = [name for name in WORKLOADS if matches(name, theme.workloads)]
        panels = [_panel(theme, name, config, samples) for name in names]
        found = [panel for panel in panels if panel.bars]
        if found:
            yield Chart(theme.name, theme.title, _axis(theme, config, samples), found)


def draw(shown: Sequence[Chart], folder: Path) -> list[Path]:
    """The pictures; none where the environment that draws is not there (`make bench` makes it)."""
    if not PYTHON.exists():
        return []
    folder.mkdir(parents=True, exist_ok=True)
    command = [str(PYTHON), "-m", "loadtest.drawing", str(folder)]
    data = json.dumps([asdict(chart) for chart in shown])
    subprocess.run(command, cwd=HERE.parent, input=data, text=True, check=True)
    return [folder / f"{chart.name}.png" for chart in shown]


def _axis(theme: Theme, config: Config, samples: Samples) -> str:
    figure, better = FIGURES[theme.figure], f"{theme.better} is better"
    baseline = next((system for system in config.system if system.baseline), None)
    if baseline is None or theme.figure == MEMORY:
        return f"{figure} ({better})"
    return f"{figure} ({better}; {TIMES} is of {samples.label(baseline)})"


def _panel(theme: Theme, workload: str, config: Config, samples: Samples) -> Panel:
    bars = []
    for system in config.system:
        spread = samples.spread(workload, system.name, theme.figure)
        if spread is not None:
            bars.append(_bar(theme, workload, system, spread, config, samples))
    return Panel(WORKLOADS[workload].title, bars)


def _bar(
    theme: Theme, workload: str, system: System, spread: Spread, config: Config, samples: Samples
) -> Bar:
    store = samples.spread(workload, system.name, STORE) if theme.figure == MEMORY else None
    on_top = store.median if store else 0.0
    baseline = next((one for one in config.system if one.baseline), system)
    ratio = samples.ratio(workload, system.name, theme.figure, baseline.name)
    is_compared = ratio is not None and theme.figure != MEMORY and baseline is not system
    times = f"   {number(ratio)}{TIMES}" if ratio is not None and is_compared else ""
    says = f"{number(spread.median + on_top)}{times}"
    return Bar(samples.label(system), spread.median, spread.low, spread.high, says, on_top)
