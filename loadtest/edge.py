"""`python -m loadtest.edge`: servers behind an edge, in turns, and a table in the end."""

import argparse
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import uvloop

from loadtest import edge_report, machine, peers
from loadtest.config import HERE
from loadtest.edge_scenarios import Result, followed, joined, polled, replayed
from loadtest.edge_stacks import NODE, Stack, stack

BUILD = HERE.parent / "build" / "bench"
RAW = BUILD / "edge.json"
DOCUMENT = HERE.parent / "docs" / "benchmarks" / "edge.md"
STACKS = ("hand-off", "straight", "nginx", "node")
SCENARIOS = ("replay", "sse", "long-poll", "joiners")


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options = _parser().parse_args(arguments)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    BUILD.mkdir(parents=True, exist_ok=True)
    peers.install([NODE])
    facts = {
        **machine.facts(BUILD),
        "Varnish": _version("varnishd", "-V"),
        "nginx": _version("nginx", "-v"),
    }
    results = [
        _measure(kind, scenario, options.size)
        for scenario in options.scenarios
        for kind in options.stacks
        if scenario == "replay" or kind in ("hand-off", "node")
    ]
    if results:
        facts["load at end"] = machine.facts(BUILD)["load at start"]
    else:
        del facts["load at start"]
    if options.note:
        facts["conditions"] = options.note
    failed = any(result.errors for result in results)
    results = _with_earlier(results)
    RAW.write_text(json.dumps([asdict(result) for result in results], indent=1))
    text = edge_report.page(results, facts, options.size)
    print(text)
    if options.write:
        DOCUMENT.parent.mkdir(exist_ok=True)
        DOCUMENT.write_text(text)
    return 1 if failed else 0


def _with_earlier(results: list[Result]) -> list[Result]:
    """What was not measured now is taken from the last time."""
    earlier = [Result(**one) for one in json.loads(RAW.read_text())] if RAW.exists() else []
    known = {(one.scenario, one.stack): one for one in [*earlier, *results]}
    order = [(scenario, kind) for scenario in SCENARIOS for kind in STACKS]
    return [known[place] for place in order if place in known]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtest.edge", description=__doc__)
    parser.add_argument("--stacks", nargs="*", choices=STACKS, default=STACKS)
    parser.add_argument("--scenarios", nargs="*", choices=SCENARIOS, default=SCENARIOS)
    parser.add_argument("--size", type=float, default=1.0, help="of crowds; 1 is the full one")
    parser.add_argument("--note", help="what else is to be known of the conditions")
    parser.add_argument("--write", action="store_true", help=f"write {DOCUMENT.name}")
    return parser


def _measure(kind: str, scenario: str, size: float) -> Result:
    """On servers that were started for it."""
    scratch = Path(tempfile.mkdtemp(prefix="edge-", dir=BUILD))
    try:
        with stack(kind, scratch) as running:
            result = uvloop.run(_run(running, scenario, size))
    finally:
        shutil.rmtree(scratch)
    print(f"{scenario} {kind}: {result.figures} {result.errors[:3]}", file=sys.stderr)
    return result


async def _run(running: Stack, scenario: str, size: float) -> Result:
    try:
        match scenario:
            case "replay" if running.name == "node":
                return await replayed(running, int(100 * size), max(8, int(16 * size)))
            case "replay":
                return await replayed(running, int(1000 * size), max(8, int(64 * size)))
            case "sse":
                return await followed(running, int(2000 * size), 50)
            case "long-poll":
                return await polled(running, int(2000 * size), 20)
            case _:
                return await joined(running, int(500 * size))
    except (ConnectionError, TimeoutError) as error:
        return Result(scenario, running.name, {}, [f"{type(error).__name__}: {error}"])


def _version(program: str, option: str) -> str:
    path = shutil.which(program, path="/usr/sbin:/usr/local/sbin:/usr/bin") or program
    said = subprocess.run([path, option], capture_output=True, text=True).stderr
    found = re.search(r"[0-9]+\.[0-9]+\.[0-9]+", said)
    return found[0] if found else "?"


if __name__ == "__main__":
    sys.exit(main())
