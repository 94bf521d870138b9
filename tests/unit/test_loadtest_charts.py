"""What the charts of a bench show."""

import json
import subprocess
from pathlib import Path

from support.needs import lack

from loadtest import charts
from loadtest.config import Config, System
from loadtest.measurement import Outcome
from loadtest.samples import Sample, Samples
from loadtest.tables import TIMES

SETUP = Config(
    system=(
        System(name="ours", label="ds-server", command=("x",), judged=True),
        System(name="peer", label="Node memory", command=("x",), baseline=True),
    )
)
PNG = b"\x89PNG\r\n\x1a\n"


def samples(**rates: list[float]) -> Samples:
    taken = [
        Sample(number, "append-c64-s1", system, Outcome({"rate": rate, "server_mb": 50.0}))
        for system, all_rates in rates.items()
        for number, rate in enumerate(all_rates)
    ]
    return Samples(taken)


def test_bars_have_the_median_the_spread_and_the_ratio() -> None:
    [appends, memory] = charts.charts(SETUP, samples(ours=[100, 300, 200], peer=[100, 100, 100]))
    [ours, peer] = appends.panels[0].bars
    assert (ours.value, ours.low, ours.high) == (200, 100, 300)
    assert ours.says == f"200   2.00{TIMES}"
    assert peer.says == "100"
    assert f"{TIMES} is of Node memory" in appends.axis
    assert memory.name == "memory"


def test_what_was_not_measured_is_not_shown() -> None:
    [appends, _] = charts.charts(SETUP, samples(ours=[100]))
    assert [bar.label for bar in appends.panels[0].bars] == ["ds-server"]
    assert list(charts.charts(SETUP, Samples())) == []


def test_charts_become_pictures(tmp_path: Path) -> None:
    if not charts.PYTHON.exists():
        lack("the environment that draws is not there: make .venv-load/.ready")
    shown = list(charts.charts(SETUP, samples(ours=[100, 5000], peer=[10])))
    for picture in charts.draw(shown, tmp_path):
        assert picture.read_bytes().startswith(PNG)


def test_the_drawer_needs_nothing_of_the_rest(tmp_path: Path) -> None:
    """Its environment has no uvloop: it must be able to import what it is made of."""
    if not charts.PYTHON.exists():
        lack("the environment that draws is not there: make .venv-load/.ready")
    command = [charts.PYTHON, "-m", "loadtest.drawing", tmp_path]
    root = Path(charts.__file__).parents[1]
    done = subprocess.run(command, cwd=root, input=json.dumps([]), text=True)
    assert done.returncode == 0
