"""`make profile WORKLOAD=…`: where a worker spends its time, as a flame graph."""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from loadtest import config
from loadtest.config import HERE
from loadtest.limits import allow_many_connections
from loadtest.processes import Tree
from loadtest.systems import DoesNotRun, Running, running
from loadtest.workloads import WORKLOADS

ROOT = HERE.parent
BUILD = ROOT / "build/profile"
PY_SPY = ROOT / ".venv-load/bin/py-spy"
LOOK_SECS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_many_connections()
    options = _parser().parse_args(arguments)
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        system = config.load(options.systems_file).named(options.system)
        with running(system, BUILD) as server:
            return profile(server, options)
    except (OSError, ValueError, DoesNotRun, subprocess.SubprocessError) as error:
        print(f"profile: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def profile(server: Running, options: argparse.Namespace) -> int:
    """While the workload runs, the busiest of the server's Python processes is watched."""
    if server.pid is None:
        raise ValueError("only a server that is started here can be profiled")
    picture = BUILD / f"{options.workload}.svg"
    load = _loaded(server, options)
    try:
        worker = _busiest(Tree(server.pid), load)
        command = [str(PY_SPY), "record", "--pid", str(worker), "--output", str(picture)]
        command += ["--duration", str(round(options.secs)), "--rate", str(options.rate)]
        done = subprocess.run([*command, *(["--native"] if options.native else [])])
    finally:
        load.terminate()
        load.wait()
    if not done.returncode:
        print(f"flame graph: {picture.relative_to(ROOT)}")
    return done.returncode


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="profile", description=__doc__)
    parser.add_argument("workload", nargs="?", default="append-c64-s1", choices=WORKLOADS)
    parser.add_argument("--secs", type=float, default=10.0, help="how long it is watched")
    parser.add_argument("--rate", type=int, default=250, help="looks a second")
    parser.add_argument("--native", action="store_true", help="show what is not Python, too")
    parser.add_argument("--system", default="ds-server-1")
    parser.add_argument("--systems-file", type=Path, default=HERE / "systems.toml")
    return parser


def _loaded(server: Running, options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "loadtest.workloads", options.workload, "--url", server.url]
    command += ["--secs", str(options.secs), "--over-and-over"]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def _busiest(tree: Tree, load: "subprocess.Popen[bytes]") -> int:
    """Who works most in one second of the load, once it is under way."""
    while True:
        before = tree.cpu_seconds_by_process()
        time.sleep(LOOK_SECS)
        if load.poll() is not None:
            raise ValueError("the workload failed")
        after = tree.cpu_seconds_by_process()
        spent = {pid: after[pid] - before.get(pid, 0.0) for pid in after}
        pid = max(spent, key=spent.__getitem__)
        if spent[pid] > LOOK_SECS / 5:
            return pid


if __name__ == "__main__":
    sys.exit(main())
