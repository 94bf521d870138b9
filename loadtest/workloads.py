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
from loadtest.fan_out import FOLLOWERS, MESSAGES, fan_out
from loadtest.generator import SHOWN_CHARACTERS, Target
from loadtest.history import READERS, crowded_history, history
from loadtest.many_streams import many_streams
from loadtest.measurement import Outcome, Run
from loadtest.processes import Tree
from loadtest.round_trips import round_trips

BRISK = ("rate", "p50_ms", "p99_ms", "cpu_us", "server_mb", "store_mb")
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


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"


WORKLOADS: Mapping[str, Workload] = {
    "append-c1-s1": _appends(1, 1),
    "append-c1-s100": _appends(1, 100),
    "append-c64-s1": _appends(64, 1),
    "append-c64-s100": _appends(64, 100),
    "rtt": Workload("append → long-poll", "p50_ms", round_trips),
    "sse": Workload(f"SSE to {FOLLOWERS:,} followers, {MESSAGES} messages", "p99_ms", fan_out),
    "history": Workload(
        "one long stream, written and replayed", "replay_mb", history, HISTORY, 2048, 3 * MIB
    ),
    "history-r50": Workload(
        f"{READERS} readers replay one stream", "replay_mb", crowded_history, CROWD, 256, 3 * MIB
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
    options = parser.parse_args()
    gc.disable()
    outcome = uvloop.run(run_safely(WORKLOADS[options.workload], _run(options)))
    print(json.dumps(asdict(outcome)))
    return 1 if outcome.errors else 0


def _run(options: argparse.Namespace) -> Run:
    server = Tree(options.pid) if options.pid else None
    size = options.size or WORKLOADS[options.workload].size
    return Run(options.url, options.secs, server, size, options.store_gauge)


if __name__ == "__main__":
    sys.exit(main())
