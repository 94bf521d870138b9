"""`make bench`: the same work for several servers, in turns, and one table in the end."""

import argparse
import contextlib
import fcntl
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from loadtest import bars, charts, config, machine, peers
from loadtest.config import Config, System, matches
from loadtest.limits import allow_many_connections
from loadtest.measurement import Outcome
from loadtest.plan import ROUNDS, Plan
from loadtest.report import Report, write_into
from loadtest.samples import Sample, Samples
from loadtest.systems import DoesNotRun, Running, running
from loadtest.workloads import WORKLOADS

ROOT = config.HERE.parent
BUILD = ROOT / "build/bench"
DOCUMENT = ROOT / "docs/benchmarks.md"
PICTURES = ROOT / "docs/benchmarks"
PATIENCE_SECS = 120.0
LONG_PATIENCE_SECS = 900.0


def main(arguments: Sequence[str] | None = None) -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_many_connections()
    options = _parser().parse_args(arguments)
    try:
        return bench(config.load(options.systems_file), options)
    except (OSError, ValueError, msgspec.ValidationError, subprocess.SubprocessError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


def bench(setup: Config, options: argparse.Namespace) -> int:
    plan = _plan(setup, options)
    BUILD.mkdir(parents=True, exist_ok=True)
    _check_disk(plan)
    facts = {**machine.facts(BUILD), "each figure": _made_of(plan)}
    peers.install(plan.systems)
    began = time.monotonic()
    with _alone():
        samples = measure_all(plan)
    facts["all in all"] = f"{(time.monotonic() - began) / 60:.1f} minutes"
    report = Report(setup, samples, facts)
    print(f"\n{report.text()}\n\nraw figures: {_keep(samples, facts).relative_to(ROOT)}")
    print(_publish(setup, plan, samples, report, is_wanted=options.record))
    missed = not all(verdict.is_reached for verdict in bars.verdicts(setup, samples))
    return 1 if samples.invalid() or (options.strict and missed) else 0


def measure_all(plan: Plan) -> Samples:
    samples = Samples()
    for number, workload, system in plan.steps():
        outcome = _measure(system, workload, plan, samples)
        samples.taken.append(Sample(number, workload, system.name, outcome))
        _show(number, plan, samples.taken[-1])
    return samples


def _measure(system: System, workload: str, plan: Plan, samples: Samples) -> Outcome:
    """On a server that was started for it: nobody profits or suffers from what was before."""
    try:
        with running(system, BUILD) as server:
            samples.facts.setdefault(system.name, server.facts)
            command = _command(server, system, workload, plan)
            patience = LONG_PATIENCE_SECS if WORKLOADS[workload].is_long else PATIENCE_SECS
            return _generate(command, plan.secs + patience)
    except DoesNotRun as error:
        return Outcome(errors={str(error): 1})


def _command(server: Running, system: System, workload: str, plan: Plan) -> list[str]:
    command = [sys.executable, "-m", "loadtest.workloads", workload, "--url", server.url]
    command += ["--secs", str(plan.secs), "--size", str(plan.size_of(workload, system))]
    command += ["--pid", str(server.pid)] if server.pid else []
    return command + (["--store-gauge", system.store_gauge] if system.store_gauge else [])


def _generate(command: Sequence[str], longest_secs: float) -> Outcome:
    """In a process of its own, which Ctrl-C reaches through us."""
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            timeout=longest_secs,
            start_new_session=True,
        )
        return Outcome(**json.loads(done.stdout))
    except subprocess.TimeoutExpired:
        return Outcome(errors={"no end in sight": 1})
    except json.JSONDecodeError:
        return Outcome(errors={"the load generator failed": 1})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--secs", type=float, default=3.0, help="length of a measurement")
    long = [name for name, workload in WORKLOADS.items() if workload.is_long]
    rounds = f"rounds of {', '.join(long)}, which have a size and no length (1)"
    parser.add_argument("--long-rounds", type=int, default=1, help=rounds)
    scale = "of those sizes, for a quick try: 0.03 writes 62 MiB instead of 2 GiB"
    parser.add_argument("--scale", type=float, default=1.0, help=scale)
    names = f"workloads to run, as patterns; there are {', '.join(WORKLOADS)}"
    parser.add_argument("--only", nargs="+", default=["*"], metavar="WORKLOAD", help=names)
    parser.add_argument("--systems", nargs="+", default=["*"], metavar="SYSTEM")
    parser.add_argument("--systems-file", type=Path, default=config.HERE / "systems.toml")
    record = "write the document, though something was not measured or is not valid"
    parser.add_argument("--record", action="store_true", help=record)
    parser.add_argument("--strict", action="store_true", help="fail when a bar is not reached")
    return parser


def _plan(setup: Config, options: argparse.Namespace) -> Plan:
    systems = [system for system in setup.system if matches(system.name, options.systems)]
    workloads = [name for name in WORKLOADS if matches(name, options.only)]
    if min(len(systems), len(workloads), options.rounds, options.long_rounds) < 1:
        raise ValueError("nothing to measure: no such system or workload, or no round")
    if options.scale <= 0:
        raise ValueError("the scale must be more than 0")
    return Plan(
        systems, workloads, options.rounds, options.long_rounds, options.secs, options.scale
    )


@contextlib.contextmanager
def _alone() -> Iterator[None]:
    """Two at a time would measure each other."""
    with (BUILD / "lock").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError("another bench is running here") from None
        yield


def _check_disk(plan: Plan) -> None:
    free, wanted = shutil.disk_usage(BUILD).free, plan.disk_bytes()
    if free < wanted:
        raise ValueError(f"{BUILD} has {free / 1e9:.1f} GB free; this takes {wanted / 1e9:.1f} GB")


def _made_of(plan: Plan) -> str:
    brisk = f"median (least to most) of {plan.rounds} rounds of {plan.secs:g} s on a fresh server"
    smaller = f", at {plan.scale:g} of their size" if plan.scale != 1 else ""
    return f"{brisk}; of long and many streams {plan.long_rounds}{smaller}"


def _show(number: int, plan: Plan, sample: Sample) -> None:
    compared = WORKLOADS[sample.workload].compared
    value = sample.outcome.figures.get(compared)
    said = f"{value:12,.2f} {compared}" if sample.is_valid and value else "INVALID"
    where = (
        f"{number + 1}/{plan.rounds_of(sample.workload)}  {sample.workload:<16}{sample.system:<14}"
    )
    print(f"{where}{said}", file=sys.stderr, flush=True)


def _keep(samples: Samples, facts: dict[str, str]) -> Path:
    path = BUILD / time.strftime("%Y%m%d-%H%M%S.json")
    record = {"machine": facts, **asdict(samples)}
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False))
    return path


def _publish(
    setup: Config, plan: Plan, samples: Samples, report: Report, *, is_wanted: bool
) -> str:
    """Only a whole run without errors is worth showing around, or one that says what it lacks."""
    name, shown = DOCUMENT.relative_to(ROOT), list(charts.charts(setup, samples))
    is_good = plan.is_whole(setup) and not samples.invalid()
    if not (is_good or is_wanted):
        drawn = charts.draw(shown, BUILD / "charts")
        kept = f"{name} stays as it is: it wants everything, {ROUNDS} rounds, and no errors"
        return "\n".join([*(f"chart: {chart.relative_to(ROOT)}" for chart in drawn), kept])
    drawn = charts.draw(shown, PICTURES)
    pictures = [
        f"![{chart.title}]({picture.relative_to(DOCUMENT.parent)})"
        for chart, picture in zip(shown, drawn, strict=False)
    ]
    write_into(DOCUMENT, "\n\n".join([*pictures, report.markdown(), *plan.lacks()]))
    return f"written to {name}"


if __name__ == "__main__":
    sys.exit(main())
