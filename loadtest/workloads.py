"""What is measured. By hand, against any server:

python -m loadtest.workloads append-c64-s1 --url http://127.0.0.1:4437/v1/stream
"""

import argparse
import functools
import gc
import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict, dataclass

import uvloop

from loadtest.appends import appends
from loadtest.content import MIB
from loadtest.fan_out import MESSAGES, fan_out
from loadtest.generator import SHOWN_CHARACTERS, Target
from loadtest.history import READERS, crowded_history, history
from loadtest.many_streams import many_streams
from loadtest.measurement import Outcome, Run
from loadtest.official_client import official_client
from loadtest.processes import Tree
from loadtest.round_trips import round_trips
from loadtest.storm import storm
from loadtest.tokens import FOLLOWERS, STREAMS, TOKENS_PER_SEC, tokens

BRISK = ("rate", "p50_ms", "p99_ms", "cpu_us", "server_mb", "store_mb")
CLIENT = ("rate", "write_mb", "p50_ms", "p99_ms", "cpu_us", "server_mb", "store_mb")
TOKENS = ("rate", "append_rate", "p50_ms", "p99_ms", "cpu_us", "server_mb", "store_mb")
STORM = ("visits", "rate", "p50_ms", "p99_ms", "left", "cpu_us", "server_mb", "store_mb")
HISTORY = (
    "mib",
    "write_mb",
    "replay_mb",
    "early_ms",
    "late_ms",
    "late_ratio",
    "beside_ms",
    "beside_ratio",
    "used_over_mib",
    "server_mb",
    "refused",
    "lag_secs",
)
CROWD = ("mib", "replay_mb", "used_over_mib", "server_mb")
MANY = (
    "streams",
    "made_rate",
    "one_ms",
    "many_ms",
    "many_ratio",
    "idle_bytes",
    "server_mb",
    "lag_secs",
)

FIGURES = {
    "rate": "per second",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "append_rate": "appends per second",
    "visits": "visits",
    "left": "descriptors left",
    "cpu_us": "CPU µs each",
    "server_mb": "server MB",
    "store_mb": "Redis MB",
    "messages": "messages",
    "mib": "MiB",
    "write_mb": "written MB/s",
    "replay_mb": "replayed MB/s",
    "early_ms": "append p50 ms at 1 MiB",
    "late_ms": "append p50 ms at the end",
    "late_ratio": "end / 1 MiB",
    "beside_ms": "at the end, beside it at 1 MiB",
    "beside_ratio": "end / beside it",
    "used_over_mib": "Redis peak MiB over start",
    "refused": "503s",
    "lag_secs": "sealed s after the last append",
    "streams": "streams",
    "made_rate": "made per second",
    "one_ms": "append p50 ms on one",
    "many_ms": "append p50 ms over all",
    "many_ratio": "all / one",
    "idle_bytes": "Redis bytes per idle stream",
}


@dataclass(frozen=True, slots=True)
class Workload:
    """`compared` names the figure that ratios are made of, `columns` those that are shown.

    A workload with a `size` takes as long as it takes, and is done once. For each unit of its
    size (MiB or streams) it needs `disk_bytes` at most.
    """

    title: str
    compared: str
    run: Callable[[Run], Awaitable[Outcome]]
    columns: tuple[str, ...] = BRISK
    size: int = 0
    disk_bytes: int = 0

    @property
    def is_long(self) -> bool:
        return self.size > 0


def _appends(connections: int, streams: int) -> Workload:
    on, to = _counted(connections, "connection"), _counted(streams, "stream")
    run = functools.partial(appends, connections=connections, streams=streams)
    return Workload(f"appends, {on}, {to}", "rate", run)


def _fan_out(followers: int) -> Workload:
    run = functools.partial(fan_out, followers=followers)
    return Workload(f"SSE to {followers:,} followers, {MESSAGES} messages", "p99_ms", run)


def _client(size: int, at_once: int, said: str) -> Workload:
    run = functools.partial(official_client, size=size, at_once=at_once)
    title = f"{said} through the official client, {at_once} at once"
    return Workload(title, "rate", run, CLIENT)


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' if count > 1 else ''}"


WORKLOADS: Mapping[str, Workload] = {
    "append-c1-s1": _appends(1, 1),
    "append-c1-s100": _appends(1, 100),
    "append-c64-s1": _appends(64, 1),
    "append-c64-s100": _appends(64, 100),
    "append-c64-s10000": _appends(64, 10_000),
    "rtt": Workload("append → long-poll", "p50_ms", round_trips),
    "sse-100": _fan_out(100),
    "sse-1000": _fan_out(1000),
    "sse-5000": _fan_out(5000),
    "sse-stalled": Workload(
        "SSE, 8 KiB to 1,000 followers beside 1,000 who do not read",
        "p99_ms",
        functools.partial(fan_out, followers=1000, stalled=1000, size=8 * 1024),
    ),
    "tokens": Workload(
        f"AI tokens: {STREAMS} streams, {TOKENS_PER_SEC} a second each, {FOLLOWERS} followers each",
        "p99_ms",
        tokens,
        TOKENS,
    ),
    "small": _client(100, 75, "100 B"),
    "large": _client(MIB, 15, "1 MiB"),
    "storm": Workload("followers who come and go at once", "rate", storm, STORM, 20_000, 1024),
    "history": Workload(
        "one long stream, written and replayed", "replay_mb", history, HISTORY, 2048, 3 * MIB
    ),
    "catch-up": Workload(
        f"{READERS} readers replay one stream", "replay_mb", crowded_history, CROWD, 64, 3 * MIB
    ),
    "many-streams": Workload("many idle streams", "many_ms", many_streams, MANY, 10_000, 64 * 1024),
}


async def run_safely(workload: Workload, run: Run) -> Outcome:
    try:
        return await workload.run(run)
    except (OSError, KeyError, ValueError) as error:
        return Outcome(errors={f"{type(error).__name__}: {error}"[:SHOWN_CHARACTERS]: 1})


def main() -> int:
    parser = argparse.ArgumentParser(description="One measurement; its outcome as JSON.")
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("--url", type=Target.parse, required=True, help="where the streams live")
    parser.add_argument("--secs", type=float, default=3.0)
    parser.add_argument("--size", type=int, help="of long streams in MiB, or how many streams")
    parser.add_argument("--pid", type=int, help="the server's first process, to see what it uses")
    gauge = "where the server tells what its Redis uses: /metrics#ds_hot_bytes"
    parser.add_argument("--store-gauge", metavar="PATH#NAME", help=gauge)
    parser.add_argument("--over-and-over", action="store_true", help="until it is ended")
    options = parser.parse_args()
    gc.disable()
    outcome = uvloop.run(run_safely(WORKLOADS[options.workload], _run(options)))
    while options.over_and_over and not outcome.errors:
        outcome = uvloop.run(run_safely(WORKLOADS[options.workload], _run(options)))
    print(json.dumps(asdict(outcome)))
    return 1 if outcome.errors else 0


def _run(options: argparse.Namespace) -> Run:
    server = Tree(options.pid) if options.pid else None
    size = options.size or WORKLOADS[options.workload].size
    return Run(options.url, options.secs, server, size, options.store_gauge)


if __name__ == "__main__":
    sys.exit(main())
