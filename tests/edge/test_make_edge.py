"""`make edge`: everything on one port, and nothing left when it ends."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.client import TEXT, Stream, eventually
from support.edge import EDGE
from support.needs import need
from support.object_servers import free_ports
from support.server import wait_until


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    need("varnishd")
    need("nginx")
    port, inner, objects = free_ports(3)
    place = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "EDGE_LISTEN": f"127.0.0.1:{port}",
        "EDGE_SERVER_PORT": str(inner),
        "EDGE_OBJECTS_PORT": str(objects),
        "DS_STORAGE__DATA_DIR": str(tmp_path / "data"),
        "TMPDIR": str(tmp_path),
    }
    output = tmp_path / "output"
    with output.open("wb") as log:
        running = subprocess.Popen(
            ["sh", EDGE / "run.sh"],
            cwd=EDGE.parents[1],
            env=os.environ | place,
            stdout=log,
            stderr=log,
        )
    try:
        wait_until(lambda: "listening on" in output.read_text(), what="the server")
        yield f"http://127.0.0.1:{port}"
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(timeout=30)
        print(output.read_text())
    assert not list(tmp_path.glob("tmp.*"))


async def test_one_command_starts_a_server_behind_an_edge(
    url: str, at: Callable[..., Stream]
) -> None:
    stream = at(url, content_type=TEXT)
    await eventually(lambda: is_created(stream), bool)
    await stream.append(b"hello", stream_closed="true")
    assert [(await stream.read("-1"))["X-Cache"] for _ in range(2)] == ["MISS", "HIT"]
    assert (await stream.delete()).status == 204
    assert (await stream.read("-1")).status == 404


async def is_created(stream: Stream) -> bool:
    try:
        return (await stream.create()).status in (200, 201)
    except OSError:
        return False
