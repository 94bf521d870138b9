"""Servers behind an edge: what is started, and how many requests come through."""

import contextlib
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from loadtest.config import HERE, System
from loadtest.edge_bucket import bucket
from loadtest.generator import Target
from loadtest.ports import answers, free_port
from loadtest.processes import Tree
from loadtest.systems import running

SCRIPTS = HERE.parent / "infra" / "edge"
STORAGE = "1g"
POLL_SECS = 0.05
READS = re.compile(r"^ds_reads_total\{.*\} ([0-9.e+]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Counts:
    """What has reached the server through the edge so far."""

    requests: int
    body_bytes: int | None


@dataclass(frozen=True, slots=True)
class Stack:
    name: str
    direct: Target
    edge: Target
    server: Tree
    edge_tree: Tree
    home: Path
    secret: str

    def counts(self) -> Counts:
        if self.name == "nginx":
            return Counts(self._reads(), None)
        command = ["varnishstat", "-n", str(self.home / "varnish" / "work"), "-j"]
        said = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        counters = said.get("counters", said)
        name = "VBE.boot.origin_1."
        return Counts(counters[f"{name}req"]["value"], counters[f"{name}beresp_bodybytes"]["value"])

    def _reads(self) -> int:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.direct.port}/metrics") as answer:
            return sum(int(float(n)) for n in READS.findall(answer.read().decode()))


def _ours(env: Mapping[str, str]) -> System:
    """The server of this checkout, wherever the command was installed from."""
    here = {"PYTHONPATH": str(HERE.parent)}
    return System(
        name="ds-server",
        label="ds-server",
        command=("ds-server",),
        ready="listening on http",
        env={"DS_SERVER__PORT": "{port}", "DS_STORAGE__DATA_DIR": "{data}", **here, **env},
    )


NODE = System(
    name="node-memory",
    label="Node memory",
    npm="peers",
    command=("node", "{here}/peers/reference.mjs", "{port}"),
    ready="listening on http",
)


@contextlib.contextmanager
def stack(kind: str, scratch: Path) -> Iterator[Stack]:
    home = Path(tempfile.mkdtemp(prefix=f"edge-{kind}-", dir=scratch))
    secret = secrets.token_hex(16)
    with contextlib.ExitStack() as started:
        system, place = _system(kind, home, secret, started)
        server = started.enter_context(running(system, scratch))
        direct = Target.parse(server.url)
        script = ["nginx.sh", "edge"] if kind == "nginx" else ["varnish.sh"]
        env = {"EDGE_ORIGINS": f"127.0.0.1:{direct.port}", "EDGE_SECRET": secret, **place}
        port, edge = started.enter_context(_edge(script, home / "varnish", env))
        assert server.pid is not None
        target = Target(port, direct.path)
        yield Stack(kind, direct, target, Tree(server.pid), Tree(edge), home, secret)


def _system(
    kind: str, home: Path, secret: str, started: contextlib.ExitStack
) -> tuple[System, dict[str, str]]:
    """The server, and what its edge must know of its bucket."""
    if kind == "node":
        return NODE, {"EDGE_PROBE": ""}
    trusted = {"DS_EDGE__SECRET": secret}
    if kind == "straight":
        store = started.enter_context(bucket(home / "bucket"))
        place = {"EDGE_BUCKET": store.address, "EDGE_STRAIGHT": f"/{store.name}/"}
        return _ours(trusted | store.settings), place
    folder = home / "objects"
    folder.mkdir()
    env = {"EDGE_OBJECTS": str(folder)}
    port, _ = started.enter_context(_edge(["nginx.sh", "objects"], home / "nginx", env))
    return _ours(trusted | {"DS_OBJECTS__URL": folder.as_uri()}), {
        "EDGE_BUCKET": f"127.0.0.1:{port}"
    }


@contextlib.contextmanager
def _edge(script: list[str], home: Path, env: Mapping[str, str]) -> Iterator[tuple[int, int]]:
    """Its port and its process."""
    port = free_port()
    home.mkdir()
    place = {"EDGE_LISTEN": f"127.0.0.1:{port}", "EDGE_HOME": str(home), "EDGE_STORAGE": STORAGE}
    command = ["sh", str(SCRIPTS / script[0]), *script[1:]]
    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            command, env={**os.environ, **place, **env}, stdout=log, stderr=log
        )
    try:
        while not answers(port, "/healthz") and process.poll() is None:
            time.sleep(POLL_SECS)
        if process.poll() is not None:
            sys.exit((home / "log").read_text())
        yield port, process.pid
    finally:
        process.terminate()
        process.wait()
