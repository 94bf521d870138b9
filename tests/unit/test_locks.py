"""The locks hold what pyproject.toml asks for; `make lock` remakes them."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)

project = tomllib.loads((ROOT / "pyproject.toml").read_text())
groups = project["dependency-groups"]
needed = project["project"]["dependencies"] + groups["build"]
spark = project["project"]["optional-dependencies"]["spark"]
LOCKS = {
    "requirements.lock": needed,
    "requirements-dev.lock": needed + spark + groups["dev"],
    "requirements-load.lock": groups["load"],
    "requirements-node.lock": groups["node"],
}


def versions(lock: str) -> dict[str, str]:
    pins = PINNED.findall((ROOT / lock).read_text())
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_what_is_asked_for(lock: str) -> None:
    pinned = versions(lock)
    for wanted in map(Requirement, LOCKS[lock]):
        version = pinned.get(canonicalize_name(wanted.name))
        assert version, f"{lock} lacks {wanted}: run `make lock`"
        assert wanted.specifier.contains(version), f"{lock} has {version} for {wanted}"


def test_the_server_is_tested_with_the_versions_it_runs_with() -> None:
    assert versions("requirements.lock").items() <= versions("requirements-dev.lock").items()
