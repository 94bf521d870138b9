"""The official conformance suite, every group except forks and subscriptions."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.needs import need, need_npm_packages
from support.server import RunningServer

TESTS = 250
NOT_YET = ("Fork - ", "Reserved subscription APIs")


@dataclass(frozen=True)
class Outcome:
    tests: list[dict[str, Any]]
    printed: str

    def names(self, *statuses: str) -> list[str]:
        return [test["fullName"] for test in self.tests if test["status"] in statuses]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("workers", [1, 2])
def test_every_selected_test_of_the_official_suite_passes(workers: int, tmp_path: Path) -> None:
    with RunningServer(workers=workers, long_poll_timeout_secs=0.5) as server:
        outcome = run_suite(server.url, tmp_path / "report.json")

    assert outcome.names("failed") == [], outcome.printed
    left_out = outcome.names("skipped", "pending", "todo", "disabled")
    assert [name for name in left_out if not name.startswith(NOT_YET)] == []
    assert len(outcome.names("passed")) == TESTS


def run_suite(url: str, report: Path) -> Outcome:
    vitest = [need("node"), "node_modules/vitest/vitest.mjs", "run"]
    run = subprocess.run(
        [*vitest, "--reporter=dot", "--reporter=json", f"--outputFile={report}"],
        cwd=need_npm_packages(),
        env=os.environ | {"CONFORMANCE_URL": url, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=500,
    )
    assert report.exists(), f"vitest wrote no report:\n{run.stdout}"
    files = json.loads(report.read_text())["testResults"]
    tests = [test for file in files for test in file["assertionResults"]]
    return Outcome(tests, run.stdout)
