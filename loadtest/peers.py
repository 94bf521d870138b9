"""The npm packages of the servers we compare with, at the versions of their lock."""

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from loadtest.config import HERE, System


def install(systems: Iterable[System]) -> None:
    for folder in sorted({system.npm for system in systems if system.npm}):
        if not _is_complete(HERE / folder):
            print(f"installing npm packages into loadtest/{folder}", file=sys.stderr)
            _npm_ci(HERE / folder)


def _is_complete(folder: Path) -> bool:
    mark, lock = folder / "node_modules/.complete", folder / "package-lock.json"
    return mark.exists() and mark.stat().st_mtime >= lock.stat().st_mtime


def _npm_ci(folder: Path) -> None:
    """With npm from this environment (`make tools` puts it there where the machine has none)."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    command = ["npm", "ci", "--loglevel=error"]
    subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, stdout=2, check=True)
    (folder / "node_modules/.complete").touch()
