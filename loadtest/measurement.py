"""One measurement: of which server, and what came out."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from loadtest.generator import Tally, Target
from loadtest.memory import memory_figures
from loadtest.processes import Tree

WARM_UP_SECS = 2.0
MESSAGE_BYTES = 100


@dataclass(frozen=True, slots=True)
class Run:
    """One measurement to make: of whom, for how long, or of how much.

    `store_gauge` is the path and name under which a server tells what its Redis uses.
    """

    target: Target
    secs: float
    server: Tree | None
    size: int = 0
    store_gauge: str | None = None

    def cpu_seconds(self) -> float | None:
        return self.server.cpu_seconds() if self.server else None


@dataclass(slots=True)
class Outcome:
    """Figures by name. With errors it is no measurement."""

    figures: dict[str, float] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    generator_busy: float = 0.0


class Window:
    """What happens, and what it costs, between opening and closing; at the end also the memory."""

    def __init__(self, run: Run, tally: Tally) -> None:
        self._run = run
        self._tally = tally
        tally.seconds.clear()
        self._cpu = run.cpu_seconds()
        self._own_cpu = time.process_time()
        self._opened = time.perf_counter()

    def close(self) -> Outcome:
        elapsed = time.perf_counter() - self._opened
        busy = (time.process_time() - self._own_cpu) / elapsed
        cpu = self._run.cpu_seconds()
        seconds = sorted(self._tally.seconds)
        figures = {"rate": len(seconds) / elapsed, **_percentiles(seconds)}
        if not seconds:
            self._tally.fail("nothing was answered")
        elif cpu is not None and self._cpu is not None:
            figures["cpu_us"] = (cpu - self._cpu) / len(seconds) * 1e6
        figures |= memory_figures(self._run.server)
        return Outcome(figures, dict(self._tally.errors), busy)


def _percentiles(ascending: Sequence[float]) -> dict[str, float]:
    """In milliseconds."""
    if not ascending:
        return {}
    last = len(ascending) - 1
    return {f"p{p}_ms": ascending[round(last * p / 100)] * 1000 for p in (50, 99)}
