"""Skips are either asked for through support.needs, or failures; in CI always failures."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.needs import need

TESTS = Path(__file__).parents[1]
BARE_PYTEST = {
    "PYTEST_ADDOPTS": "",
    "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    "PYTHONPATH": str(TESTS),
}

LACKING = "from support.needs import lack\ndef test(): lack('no such thing')"
LACKING_MODULE = "from support.needs import lack\nlack('no such thing')"
QUIET = "import pytest\n@pytest.mark.skip\ndef test(): pass"
QUIET_MODULE = "import pytest\npytest.skip('quietly', allow_module_level=True)"
EXPECTED_TO_FAIL = "import pytest\n@pytest.mark.xfail\ndef test(): assert False"


def outcome(source: str, folder: Path, ci: str) -> str:
    shutil.copy(TESTS / "conftest.py", folder)
    (folder / "test_it.py").write_text(source)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "/dev/null", folder],
        env=os.environ | {"CI": ci} | BARE_PYTEST,
        capture_output=True,
        text=True,
    )
    return run.stdout


@pytest.mark.parametrize("source", [LACKING, LACKING_MODULE])
def test_what_is_lacking_skips_with_its_reason(source: str, tmp_path: Path) -> None:
    assert "1 skipped" in outcome(source, tmp_path, ci="")


@pytest.mark.parametrize("source", [LACKING, LACKING_MODULE])
def test_what_is_lacking_fails_in_ci(source: str, tmp_path: Path) -> None:
    printed = outcome(source, tmp_path, ci="true")
    assert "no such thing, and in CI nothing may be missing" in printed
    assert "skipped" not in printed


@pytest.mark.parametrize("source", [QUIET, QUIET_MODULE, EXPECTED_TO_FAIL])
def test_a_quiet_skip_fails_everywhere(source: str, tmp_path: Path) -> None:
    printed = outcome(source, tmp_path, ci="")
    assert "without support.needs" in printed
    assert "1 failed" in printed or "1 error" in printed


def test_a_program_that_is_there_is_found() -> None:
    assert Path(need("sh")).is_file()
