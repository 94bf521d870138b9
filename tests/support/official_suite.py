"""Runs the official conformance suite against a URL."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.needs import need, need_npm_packages


@dataclass(frozen=True)
class Outcome:
    tests: list[dict[str, Any]]
    printed: str

    def names(self, *statuses: str) -> list[str]:
        return [test["fullName"] for test in self.tests if test["status"] in statuses]


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
