"""Sealers that get in each other's way, and sealers that come back from the dead."""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import pausing_sealer
from support.client import unique_name
from support.server import RunningServer, wait_until
from support.wire import Wire

CHUNK = 4096
NEVER = {"DS_TIERING__SEAL_AGE_SECS": "86400"}


def objects_of(server: RunningServer) -> Path:
    return server.data_dir / "objects"


def contents(server: RunningServer) -> dict[str, str]:
    files = (path for path in objects_of(server).rglob("*") if path.is_file())
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def start_pausing_sealer(server: RunningServer, stream: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [
            sys.executable,
            pausing_sealer.__file__,
            f"unix://{server.redis_socket}",
            str(objects_of(server)),
            stream,
        ]
    )


def is_stopped(process: subprocess.Popen[bytes]) -> bool:
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]
    return stat.split()[0] == "T"


def seal_all(server: RunningServer) -> None:
    environment = os.environ | {"DS_STORAGE__DATA_DIR": str(server.data_dir)}
    command = Path(sys.executable).parent / "ds-server"
    subprocess.run([command, "seal", "--all"], env=environment, check=True, capture_output=True)


@pytest.mark.timeout(120)
def test_a_sealer_frozen_between_put_and_commit_overwrites_and_loses_nothing() -> None:
    name, written = unique_name(), b""
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, content_type="text/plain")

        def write(count: int) -> bytes:
            data = b"".join(os.urandom(100).hex().encode() for _ in range(count))
            assert wire.ask("POST", name, data, content_type="text/plain").status == 204
            return data

        written += write(5)
        frozen = start_pausing_sealer(server, name)
        try:
            wait_until(lambda: is_stopped(frozen), what="the sealer to freeze")
            assert wire.read_all(name) == written
            seal_all(server)
            assert wire.read_all(name) == written
            written += write(100)
            seal_all(server)
            before = contents(server)
            thaw(frozen)
            assert frozen.wait(timeout=60) == 0
        finally:
            frozen.kill()
            frozen.wait()
        after = contents(server)
        assert {path: after.get(path) for path in before} == before
        assert wire.read_all(name) == written
        written += write(50)
        seal_all(server)
        assert wire.read_all(name) == written
        wire.close()


def thaw(process: subprocess.Popen[bytes]) -> None:
    """It may freeze again at the next piece, if it finds one."""
    os.kill(process.pid, signal.SIGCONT)


@pytest.mark.timeout(120)
def test_a_sealer_frozen_while_its_stream_is_deleted_leaves_no_object_of_it() -> None:
    name = unique_name()
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=NEVER) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, b"some data", content_type="text/plain")
        frozen = start_pausing_sealer(server, name)
        try:
            wait_until(lambda: is_stopped(frozen), what="the sealer to freeze")
            assert wire.ask("DELETE", name).status == 204
            thaw(frozen)
            assert frozen.wait(timeout=60) == 0
        finally:
            frozen.kill()
            frozen.wait()
        assert wire.ask("GET", name).status == 404
        assert not [path for path in contents(server) if f"/{name}/" in path]
        wire.close()
