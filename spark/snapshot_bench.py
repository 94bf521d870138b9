"""What a snapshot costs, and what it gives: a stream with many writes to some keys is filled, read
by a new client, folded by `ds-spark snapshot`, and read by a new client again.
"""

import argparse
import asyncio
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Self

import msgspec

from spark.compaction_bench import Server
from spark.deployment import bucket_of
from spark.due import Wanted, plan
from spark.folds import Fold
from spark.rules import Rule

_COMMAND = Path(sys.executable).parent / "ds-spark"
_BUCKET = "bench-snapshot"
_STREAM = f"/ds/{_BUCKET}/stream"
_TYPE = {"Content-Type": "application/json"}
_APPEND_BYTES = 8 * 2**20
_READ_BYTES = 2**20
_POLL_SECS = 0.2
_KIB = 1024


class Reading(msgspec.Struct, frozen=True):
    seconds: float
    bytes: int


class Watcher:
    """The most memory that each kind of process had at once, in bytes (RSS)."""

    def __init__(self) -> None:
        self.peaks: Counter[str] = Counter()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(_POLL_SECS):
            now = _memory()
            for kind, size in (now | {"all": sum(now.values())}).items():
                self.peaks[kind] = max(self.peaks[kind], size)


def _memory() -> dict[str, int]:
    """Of everything that this process has started."""
    found: Counter[str] = Counter()
    for folder in _descendants():
        try:
            command = (folder / "cmdline").read_bytes()
            resident = next(
                line for line in (folder / "status").read_text().splitlines() if "VmRSS" in line
            )
        except (OSError, StopIteration):
            continue
        found[_kind(command)] += int(resident.split()[1]) * _KIB
    return dict(found)


def _kind(command: bytes) -> str:
    if b"java" in command.split(b"\0")[0]:
        return "Spark's Java"
    if b"pyspark" in command:
        return "Spark's Python"
    return "driver" if b"ds-spark" in command else "server"


def _descendants() -> Iterator[Path]:
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(fields[1])
    ours = os.getpid()
    for pid in parents:
        parent = parents.get(pid)
        while parent and parent != ours:
            parent = parents.get(parent)
        if parent == ours:
            yield Path("/proc") / str(pid)


def fill(port: int, mib: int, keys: int, size: int) -> int:
    """Every key is written, the rest at random; how many messages there are."""
    connection = HTTPConnection("127.0.0.1", port, timeout=600)
    _ask(connection, "PUT", f"/ds/{_BUCKET}")
    _ask(connection, "PUT", _STREAM)
    chance, padding = random.Random(7), "x" * max(0, size - 100)
    count = mib * 2**20 // size
    per_append = min(_APPEND_BYTES // size, 100_000)
    for first in range(0, count, per_append):
        numbers = range(first, min(first + per_append, count))
        messages = (
            f'{{"type":"user","key":"user:{n if n < keys else chance.randrange(keys)}",'
            f'"value":{{"n":{n},"text":"{padding}"}},"headers":{{"operation":"upsert"}}}}'
            for n in numbers
        )
        _ask(connection, "POST", _STREAM, f"[{','.join(messages)}]".encode())
    connection.close()
    return count


def _ask(connection: HTTPConnection, method: str, path: str, body: bytes = b"") -> None:
    """A server that cannot keep up says so."""
    while True:
        connection.request(method, path, body, _TYPE)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 503:
            break
        time.sleep(_POLL_SECS)
    if answer.status not in (200, 201, 204):
        sys.exit(f"{method} {path} was answered with {answer.status}")


def wait_until_sealed(server: Server, port: int) -> None:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("HEAD", _STREAM)
    answer = connection.getresponse()
    answer.read()
    tail = answer.headers["Stream-Next-Offset"]
    connection.close()
    wanted = Wanted([Rule("*", "*", Fold.parse("state"))], _BUCKET)
    bucket = bucket_of({"data_dir": str(server.data)}, {})
    while [str(one.at) for one in asyncio.run(plan(bucket, wanted)).due] != [tail]:
        time.sleep(_POLL_SECS)


def bootstrap(port: int) -> Reading:
    """As a new client does, but for the parsing."""
    connection = HTTPConnection("127.0.0.1", port, timeout=600)
    began, total = time.perf_counter(), 0
    connection.request("GET", f"{_STREAM}/bootstrap")
    answer = connection.getresponse()
    while piece := answer.read(_READ_BYTES):
        total += len(piece)
    connection.close()
    return Reading(time.perf_counter() - began, total)


def replay(port: int) -> Reading:
    """The whole history by ordinary reads."""
    connection = HTTPConnection("127.0.0.1", port, timeout=600)
    began, total, offset, is_behind = time.perf_counter(), 0, "-1", True
    while is_behind:
        connection.request("GET", f"{_STREAM}?offset={offset}")
        answer = connection.getresponse()
        total += len(answer.read())
        offset = answer.headers["Stream-Next-Offset"]
        is_behind = answer.headers["Stream-Up-To-Date"] is None
    connection.close()
    return Reading(time.perf_counter() - began, total)


def snapshot(server: Server, port: int, master: str) -> float:
    """The command as cron runs it, Spark's start included."""
    began = time.perf_counter()
    subprocess.run(
        [
            *(_COMMAND, "snapshot", "--fold", "state", "--bucket", _BUCKET),
            *("--server", f"http://127.0.0.1:{port}", "--master", master),
        ],
        env=server.environment,
        check=True,
    )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m spark.snapshot_bench", description=__doc__)
    parser.add_argument("--mib", type=int, default=1024, help="how large the history is (1024)")
    parser.add_argument("--keys", type=int, default=100_000, help="that are written (100000)")
    parser.add_argument("--bytes", type=int, default=200, help="of a message (200)")
    parser.add_argument("--master", default="local[2]", help="of Spark (local[2])")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ds-snapshot-bench-") as place:
        server = Server(Path(place))
        with server.running() as port:
            began = time.perf_counter()
            count = fill(port, chosen.mib, chosen.keys, chosen.bytes)
            wait_until_sealed(server, port)
            print(f"{count:,} messages, filled and sealed in {time.perf_counter() - began:.1f} s")
        with server.running() as port:
            reads, before = replay(port), bootstrap(port)
            with Watcher() as watcher:
                seconds = snapshot(server, port, chosen.master)
        with server.running() as port:
            after = bootstrap(port)
    print(f"snapshot in {seconds:.1f} s, Spark's start included; at most so much memory (RSS):")
    for kind, size in sorted(watcher.peaks.items(), key=lambda one: one[1]):
        print(f"  {kind:14} {size / 2**20:8,.0f} MiB")
    print(f"{'':34} {'seconds':>10} {'bytes':>16}")
    for what, one in (
        ("replay of all history", reads),
        ("bootstrap before", before),
        ("bootstrap after", after),
    ):
        print(f"{what:34} {one.seconds:10.3f} {one.bytes:16,}")


if __name__ == "__main__":
    main()
