"""`make load SCENARIO=…`: people who use the server, played by locust."""

import argparse
import contextlib
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loadtest import config
from loadtest.config import HERE
from loadtest.generator import Target
from loadtest.limits import allow_many_connections
from loadtest.ports import free_port
from loadtest.systems import DoesNotRun, running

ROOT = HERE.parent
BUILD = ROOT / "build/load"
PYTHON = ROOT / ".venv-load/bin/python"


@dataclass(frozen=True, slots=True)
class Scenario:
    says: str
    users: int
    users_per_sec: int


SCENARIOS = {
    "writers": Scenario("many writers to many streams", 50, 25),
    "hot": Scenario("one stream with very many followers", 200, 50),
    "replay": Scenario("a crowd that replays history", 20, 20),
    "tokens": Scenario("AI answers, token by token, two followers each", 25, 25),
}


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_many_connections()
    options = _parser().parse_args(arguments)
    try:
        BUILD.mkdir(parents=True, exist_ok=True)
        with _server(options) as url:
            return subprocess.run(_command(options, url), cwd=ROOT).returncode
    except (OSError, ValueError, DoesNotRun) as error:
        print(f"load: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    said = "; ".join(f"{name}: {scenario.says}" for name, scenario in SCENARIOS.items())
    parser = argparse.ArgumentParser(prog="load", description=__doc__, epilog=said)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--ui", action="store_true", help="locust's own page instead of a run")
    parser.add_argument("--users", type=int, help="at once (each scenario has its own number)")
    parser.add_argument("--secs", type=int, default=30, help="how long, without --ui")
    parser.add_argument("--url", help="a server that runs already, http://127.0.0.1:PORT")
    parser.add_argument("--system", default="ds-server", help="else one of systems.toml")
    parser.add_argument("--systems-file", type=Path, default=HERE / "systems.toml")
    return parser


@contextlib.contextmanager
def _server(options: argparse.Namespace) -> Iterator[str]:
    if options.url:
        Target.parse(options.url)
        yield options.url
        return
    with running(config.load(options.systems_file).named(options.system), BUILD) as server:
        yield server.url.removesuffix("/v1/stream")


def _command(options: argparse.Namespace, url: str) -> list[str]:
    scenario = SCENARIOS[options.scenario]
    users = options.users or scenario.users
    file = HERE / f"scenarios/{options.scenario}.py"
    command = [str(PYTHON), "-m", "locust", "--locustfile", str(file)]
    command += ["--host", url, "--users", str(users), "--spawn-rate", str(scenario.users_per_sec)]
    if options.ui:
        port = free_port()
        print(f"open http://127.0.0.1:{port} in a browser; Ctrl-C ends it", flush=True)
        return [*command, "--web-host", "127.0.0.1", "--web-port", str(port)]
    report = BUILD / f"{options.scenario}.html"
    print(f"report: {report.relative_to(ROOT)}", flush=True)
    command += ["--headless", "--only-summary", "--run-time", f"{options.secs}s"]
    return [*command, "--stop-timeout", "5", "--html", str(report)]


if __name__ == "__main__":
    sys.exit(main())
