"""The load-test kit, against a real server and for a moment only."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import lack, need
from support.server import RunningServer

from loadtest import appends, bench, fan_out, load, round_trips, storm, tokens
from loadtest.config import HERE, Config, System
from loadtest.generator import Target
from loadtest.measurement import Outcome, Run
from loadtest.official_client import SCRIPT, official_client
from loadtest.plan import Plan
from loadtest.processes import Tree
from loadtest.report import Report

SECS = 0.2


@pytest.fixture(autouse=True)
def without_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (appends, round_trips, tokens):
        monkeypatch.setattr(module, "WARM_UP_SECS", 0.1)


@pytest.fixture
def run(server: RunningServer) -> Run:
    return Run(Target.parse(f"{server.url}/v1/stream"), SECS, Tree(server.pid))


def assert_measured(outcome: Outcome, *figures: str) -> None:
    assert outcome.errors == {}
    assert all(outcome.figures[figure] > 0 for figure in figures), outcome.figures


async def test_appends_to_many_streams(run: Run) -> None:
    outcome = await appends.appends(run, connections=4, streams=20)
    assert_measured(outcome, "rate", "p50_ms", "p99_ms", "server_mb", "store_mb")


async def test_round_trips(run: Run) -> None:
    assert_measured(await round_trips.round_trips(run), "p50_ms", "p99_ms", "server_mb")


async def test_followers_beside_others_who_do_not_read(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fan_out, "MESSAGES", 5)
    outcome = await fan_out.fan_out(run, followers=20, stalled=5, size=2000)
    assert_measured(outcome, "rate", "p99_ms")
    assert outcome.figures["messages"] == 5


async def test_tokens_all_arrive(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "STREAMS", 10)
    assert_measured(await tokens.tokens(run), "rate", "append_rate", "p99_ms")


async def test_a_storm_leaves_nothing(run: Run) -> None:
    visits = Run(run.target, SECS, run.server, size=50)
    outcome = await storm.storm(visits)
    assert_measured(outcome, "rate", "p99_ms")
    assert outcome.figures["visits"] == 50


async def test_appends_through_the_official_client(run: Run) -> None:
    need("node")
    if not (SCRIPT.parent / "node_modules/.complete").exists():
        lack("the npm packages of the peers are not installed: make bench does it")
    outcome = await official_client(run, size=100, at_once=10)
    assert_measured(outcome, "rate", "write_mb", "p50_ms", "p99_ms")


def test_a_server_that_runs_already_needs_only_its_url(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench, "BUILD", tmp_path)
    there = System(name="there", label="there", url=server.url, judged=True)
    plan = Plan([there], ["append-c1-s1"], rounds=2, long_rounds=1, secs=SECS, scale=1)
    samples = bench.measure_all(plan)
    assert samples.invalid() == []
    text = Report(Config(system=(there,)), samples, {}).text()
    assert "appends, 1 connection, 1 stream" in text


def test_an_answer_that_is_no_success_makes_a_measurement_invalid(server: RunningServer) -> None:
    command = [sys.executable, "-m", "loadtest.workloads", "append-c1-s1", "--secs", str(SECS)]
    command += ["--url", f"{server.url}/v1/elsewhere"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert "refused: 404" in done.stdout


@pytest.mark.parametrize("scenario", load.SCENARIOS)
def test_locust_plays_each_scenario_and_reports(
    scenario: str, server: RunningServer, tmp_path: Path
) -> None:
    if not load.PYTHON.exists():
        lack("locust is not installed: make .venv-load/.ready")
    report = tmp_path / "report.html"
    command = [load.PYTHON, "-m", "locust", "--locustfile", HERE / f"scenarios/{scenario}.py"]
    command += ["--host", server.url, "--users", "3", "--spawn-rate", "3", "--run-time", "3s"]
    command += ["--headless", "--only-summary", "--html", report]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    assert report.stat().st_size > 0


def test_load_stays_on_this_machine() -> None:
    command = [sys.executable, "-m", "loadtest.load", "writers", "--url", "http://192.0.2.1"]
    done = subprocess.run(command, cwd=HERE.parent, capture_output=True, text=True)
    assert done.returncode == 1
    assert "load goes to http://127.0.0.1 only" in done.stderr
