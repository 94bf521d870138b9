"""What compaction gives: small parts of some streams, replayed from cold before and after it.

A server of its own seals every append at once. `make sparkbench` runs this after the reading.
"""

import argparse
import asyncio
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path

import msgspec

from spark.deployment import Deployment
from tiering.data_directory import objects_in
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import SealingDesk

_COMMANDS = Path(sys.executable).parent
_LISTENING = re.compile(r"listening on http://[^\s]+:([0-9]+)")
_GETS = re.compile(r'^ds_object_requests_total\{kind="get"\} ([0-9.e+]+)$', re.MULTILINE)
_TYPE = {"Content-Type": "application/octet-stream"}
_POLL_SECS = 0.005
_STREAM = "bench-"


class Replay(msgspec.Struct, frozen=True):
    seconds: float
    gets: int
    bytes: int


class Server:
    """Stopped and started again it remembers nothing but what is stored."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self._log = folder / "server.log"
        self.environment = os.environ | {
            "DS_SERVER__PORT": "0",
            "DS_SERVER__WORKERS": "1",
            "DS_STORAGE__DATA_DIR": str(self.data),
            "DS_TIERING__SEAL_AGE_SECS": "0",
            "DS_TIERING__DELETE_GRACE_SECS": "0",
            "DS_TIERING__SWEEP_SECS": "1",
        }

    @contextmanager
    def running(self) -> Iterator[int]:
        with self._log.open("wb") as log:
            process = subprocess.Popen(
                [_COMMANDS / "ds-server"], env=self.environment, stdout=log, stderr=log
            )
        try:
            while not (found := _LISTENING.search(self._log.read_text())):
                if process.poll() is not None:
                    sys.exit(self._log.read_text())
                time.sleep(_POLL_SECS)
            yield int(found[1])
        finally:
            process.terminate()
            process.wait()

    def pieces(self) -> int:
        """Bodies; each has an index beside it."""
        folders = (objects_in(self.data) / kind for kind in ("chunks", "parts"))
        walks = (walk for folder in folders for walk in os.walk(folder))
        names = (f"{place}/{name}" for place, _, names in walks for name in names)
        return sum(f"/{_STREAM}" in name and "^" not in name for name in names)


async def fill(server: Server, port: int, names: list[str], parts: int, size: int) -> None:
    """An append is not made before the one before it is sealed: so each is a part."""
    deployment = Deployment.parse({"data_dir": str(server.data)}, {})
    async with deployment.redis_of_the_bucket() as pipe:
        await asyncio.gather(*(_fill(pipe, port, name, parts, size) for name in names))


async def _fill(pipe: Pipe, port: int, name: str, parts: int, size: int) -> None:
    desk, connection = SealingDesk(pipe), HTTPConnection("127.0.0.1", port)
    body = os.urandom(size)
    await asyncio.to_thread(_ask, connection, "PUT", name, b"")
    for _ in range(parts):
        await asyncio.to_thread(_ask, connection, "POST", name, body)
        while True:
            frontier = await desk.frontier(name)
            if frontier is not None and frontier[1] == frontier[2]:
                break
            await asyncio.sleep(_POLL_SECS)
    connection.close()


def _ask(connection: HTTPConnection, method: str, name: str, body: bytes) -> None:
    connection.request(method, f"/v1/stream/{name}", body, _TYPE)
    answer = connection.getresponse()
    answer.read()
    if answer.status not in (201, 204):
        sys.exit(f"{method} {name} was answered with {answer.status}")


def replay(server: Server, names: list[str]) -> Replay:
    """By one reader, from a server that has just been started."""
    with server.running() as port:
        connection = HTTPConnection("127.0.0.1", port)
        before, began, total = _gets(connection), time.perf_counter(), 0
        for name in names:
            total += _read(connection, name)
        seconds = time.perf_counter() - began
        time.sleep(0.3)  # Workers hand over what they have counted ten times a second.
        return Replay(seconds, _gets(connection) - before, total)


def _read(connection: HTTPConnection, name: str) -> int:
    offset, total, is_behind = "-1", 0, True
    while is_behind:
        connection.request("GET", f"/v1/stream/{name}?offset={offset}")
        answer = connection.getresponse()
        total += len(answer.read())
        offset = answer.headers["Stream-Next-Offset"]
        is_behind = answer.headers["Stream-Up-To-Date"] is None
    return total


def _gets(connection: HTTPConnection) -> int:
    connection.request("GET", "/metrics")
    found = _GETS.search(connection.getresponse().read().decode())
    return int(float(found[1])) if found else 0


def compact(server: Server) -> float:
    """The command as cron runs it, Spark's start included."""
    began = time.perf_counter()
    subprocess.run(
        [_COMMANDS / "ds-spark", "compact", "--stream", f"{_STREAM}*"],
        env=server.environment,
        check=True,
    )
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(prog="make sparkbench", description=__doc__)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--parts", type=int, default=1000, help="of each stream (1000)")
    parser.add_argument("--kib", type=int, default=10, help="how large a part is (10)")
    chosen = parser.parse_args()
    names = [f"{_STREAM}{number}" for number in range(chosen.streams)]
    with tempfile.TemporaryDirectory(prefix="ds-compaction-bench-") as place:
        server = Server(Path(place))
        with server.running() as port:
            asyncio.run(fill(server, port, names, chosen.parts, chosen.kib * 1024))
        pieces, before = server.pieces(), replay(server, names)
        with server.running():
            seconds = compact(server)
            _wait_for_the_janitor(server, pieces)
        left, after = server.pieces(), replay(server, names)
    if before.bytes != after.bytes:
        sys.exit(f"{before.bytes} bytes were read before, {after.bytes} after")
    print(f"compacted in {seconds:.1f} s, Spark's start included")
    for what, old, new in (
        ("pieces", pieces, left),
        ("GETs of a cold replay", before.gets, after.gets),
        ("seconds of a cold replay", before.seconds, after.seconds),
    ):
        print(f"{what:26} {old:12,.5g} {new:12,.5g} {old / max(new, 1e-9):8.1f} x")


def _wait_for_the_janitor(server: Server, pieces: int) -> None:
    """What was replaced goes in the background; until it is quiet."""
    last, now = pieces, -1
    while last != now:
        last, now = now, server.pieces()
        time.sleep(3)


if __name__ == "__main__":
    main()
