"""What `systems.toml` asks for exists."""

from pathlib import Path

import pytest

from loadtest import config
from loadtest.bars import verdicts
from loadtest.config import Bar, Config, System, matches
from loadtest.load import SCENARIOS
from loadtest.measurement import Outcome
from loadtest.plan import Plan
from loadtest.samples import Sample, Samples
from loadtest.workloads import FIGURES, WORKLOADS

SETUP = config.load(config.HERE / "systems.toml")


def test_every_pattern_names_a_workload() -> None:
    owners = [*SETUP.system, *SETUP.bar]
    patterns = {pattern for owner in owners for pattern in owner.workloads}
    assert [p for p in patterns if not any(matches(name, (p,)) for name in WORKLOADS)] == []


def test_every_bar_is_about_a_figure_and_a_system_that_exist() -> None:
    names = {system.name for system in SETUP.system}
    assert [bar for bar in SETUP.bar if bar.figure not in FIGURES] == []
    assert [bar for bar in SETUP.bar if bar.times and bar.times not in names] == []


def test_every_workload_is_done_by_us_and_every_column_has_a_heading() -> None:
    judged = [system for system in SETUP.system if system.judged]
    for name, workload in WORKLOADS.items():
        assert any(system.takes_part_in(name) for system in judged), name
        assert {workload.compared, *workload.columns} <= FIGURES.keys()


def test_the_files_that_commands_name_exist() -> None:
    parts = [part for system in SETUP.system for part in [*system.command, *system.env.values()]]
    places = [part.format(here=config.HERE, port=0, data="") for part in parts if "{here}" in part]
    assert [place for place in places if not Path(place).exists()] == []


def test_every_scenario_has_its_file() -> None:
    for name in SCENARIOS:
        assert (config.HERE / f"scenarios/{name}.py").exists()


def test_systems_alternate_and_each_round_begins_with_another() -> None:
    systems = [System(name=name, label=name, url="http://127.0.0.1:1") for name in "abc"]
    plan = Plan(systems, ["rtt"], rounds=3, long_rounds=1, secs=1, scale=1)
    assert [system.name for _, _, system in plan.steps()] == list("abcbcacab")


@pytest.mark.parametrize(("ours", "is_reached"), [(0.9, True), (1.1, False)])
def test_a_bar_compares_medians(ours: float, is_reached: bool) -> None:
    setup = Config(
        system=(
            System(name="ours", label="", url="http://127.0.0.1:1", judged=True),
            System(name="peer", label="", url="http://127.0.0.1:1"),
        ),
        bar=(Bar(workloads=("rtt",), figure="p50_ms", at_most=1.0, times="peer"),),
    )
    figures = {"ours": ours, "peer": 1.0}
    taken = [Sample(0, "rtt", name, Outcome({"p50_ms": value})) for name, value in figures.items()]
    [verdict] = verdicts(setup, Samples(taken))
    assert verdict.is_reached is is_reached
