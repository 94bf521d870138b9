"""Servers under test: started on a free port with an empty directory, ended with all they began."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtest.config import HERE, System
from loadtest.generator import Target
from loadtest.ports import answers, free_port
from loadtest.processes import working_in

START_SECS = 60.0
STOP_SECS = 15.0
POLL_SECS = 0.02
KEPT_VARIABLES = ("HOME", "LANG", "TMPDIR")


class DoesNotRun(Exception):
    """A server did not start, or did not stay."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers; `pid` is its first process, when we started it."""

    url: str
    pid: int | None
    facts: Mapping[str, str]


@contextlib.contextmanager
def running(system: System, scratch: Path) -> Iterator[Running]:
    if system.url:
        Target.parse(system.url)
        yield Running(system.url + system.streams, None, {})
        return
    home = Path(tempfile.mkdtemp(prefix=f"{system.name}-", dir=scratch))
    try:
        with _started(system, home) as server:
            yield server
    finally:
        shutil.rmtree(home)


@contextlib.contextmanager
def _started(system: System, home: Path) -> Iterator[Running]:
    port = free_port()
    try:
        process = _spawn(system, home, port)
    except OSError as error:
        raise DoesNotRun(f"{system.name} does not start: {error}") from error
    try:
        said = _said_when_ready(system, process, home / "output", port)
        facts = {fact: _find(pattern, said) for fact, pattern in system.says.items()}
        yield Running(f"http://127.0.0.1:{port}{system.streams}", process.pid, facts)
        if process.poll() is not None:
            raise DoesNotRun(f"{system.name} ended with {process.returncode} under load")
    finally:
        _end(process, home)


def _spawn(system: System, home: Path, port: int) -> "subprocess.Popen[bytes]":
    """In a session of its own: Ctrl-C is for us, and we end the server."""
    (home / "data").mkdir()
    places = {"port": port, "data": home / "data", "here": HERE}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    command = [part.format_map(places) for part in system.command]
    with (home / "output").open("wb") as output:
        return subprocess.Popen(
            [shutil.which(command[0], path=path) or command[0], *command[1:]],
            env={"PATH": path, **kept, **_filled(system.env, places)},
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _filled(env: Mapping[str, str], places: Mapping[str, object]) -> dict[str, str]:
    return {name: value.format_map(places) for name, value in env.items()}


def _said_when_ready(
    system: System, process: "subprocess.Popen[bytes]", output: Path, port: int
) -> str:
    deadline = time.monotonic() + START_SECS
    while True:
        said = output.read_text(errors="replace")
        if process.poll() is not None:
            raise DoesNotRun(f"{system.name} ended with {process.returncode}:\n{said}")
        if re.search(system.ready or "", said) and answers(port, system.ready_url or "/"):
            return said
        if time.monotonic() > deadline:
            raise DoesNotRun(f"{system.name} is not ready after {START_SECS:.0f} s:\n{said}")
        time.sleep(POLL_SECS)


def _find(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found[1].strip() if found else "?"


def _end(process: "subprocess.Popen[bytes]", home: Path) -> None:
    """Politely, and after a while with force: it and all it began, orphaned or not."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_SECS
    while process.poll() is None or working_in(home):
        if time.monotonic() > deadline:
            _kill(working_in(home))
        time.sleep(POLL_SECS)


def _kill(pids: Sequence[int]) -> None:
    for pid in pids:
        print(f"process {pid} does not end; killing it", file=sys.stderr)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
