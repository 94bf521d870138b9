"""What a test needs from the machine. Lacking it, the test skips with a reason; in CI it fails."""

import os
import shutil
import sys
from pathlib import Path
from typing import NoReturn

import pytest

CONFORMANCE = Path(__file__).parents[1] / "conformance"
OUR_COMMANDS = Path(sys.executable).parent
SERVERS = ("/usr/sbin", "/usr/local/sbin")
"""Debian keeps them out of people's PATH."""


class Lacking(pytest.skip.Exception):
    """The only skip that conftest.py lets through."""


def need(program: str) -> str:
    """The full path of a program, looked for in .venv before the PATH."""
    path = os.environ.get("PATH", os.defpath)
    places = os.pathsep.join([str(OUR_COMMANDS), path, *SERVERS])
    return shutil.which(program, path=places) or lack(f"{program} is not on this machine")


def need_npm_packages() -> Path:
    """The folder whose node_modules hold the official suite and the official client."""
    if not (CONFORMANCE / "node_modules" / ".complete").exists():
        lack("the npm packages are not installed: `make tools` says why")
    return CONFORMANCE


def lack(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and in CI nothing may be missing", pytrace=False)
    raise Lacking(reason, allow_module_level=True)
