"""A process with everything it starts, which can be killed at once: no child is left behind."""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from support.server import wait_until


class ProcessSession:
    """Spark's Python workers leave the process group of their driver, but not its session."""

    def __init__(self, *command: str, env: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                env=dict(env),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.kill()
        if kind is not None:
            print(self.log)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-10_000:]

    def said(self, text: str) -> bool:
        return text in self._log.read_text(errors="replace")

    def wait(self, timeout: float) -> int:
        return self._process.wait(timeout)

    def kill(self) -> None:
        """Until nobody is left: who is about to start a child is killed before it can again."""
        wait_until(self._is_killed, what="the end of all processes")
        self._process.wait()

    def _is_killed(self) -> bool:
        members = self._members()
        for pid in members:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        return not members

    def _members(self) -> list[int]:
        """Its leader is waited for, so its number is not given again before it has ended."""
        found = []
        for path in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = path.read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state, session = fields[0], int(fields[3])
            if session == self._process.pid and state not in "ZX":
                found.append(int(path.parent.name))
        return found


def python(*arguments: str) -> tuple[str, ...]:
    return (sys.executable, *arguments)
