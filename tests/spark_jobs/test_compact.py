"""`ds-spark compact`: its job on the Spark of the tests, and the command as cron runs it."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.repairs import fsck, keys_in, objects_of, seal_all
from support.server import RunningServer, wait_until
from support.wire import Wire

from spark.compact import Summary, compact
from spark.deployment import Deployment
from spark.report import report

pytestmark = pytest.mark.timeout(240)

CHUNK = 2000
ENV = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
}
COMMAND = Path(sys.executable).parent / "ds-spark"


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=CHUNK, env=ENV) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def command(
    server: RunningServer, *arguments: str, **more: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, *arguments],
        env=server.environment,
        cwd=server.home,
        capture_output=True,
        text=True,
        timeout=200,
    )


def run(server: RunningServer, spark: SparkSession, pattern: str = "*", **more: Any) -> Summary:
    deployment = Deployment.parse({"data_dir": str(server.data_dir)}, {})
    return asyncio.run(compact(deployment, lambda: spark, pattern, **more))


def parts(server: RunningServer) -> list[str]:
    return [key for key in keys_in(server) if key.startswith("parts/")]


def in_crumbs(server: RunningServer, wires: dict[str, Wire], rounds: int = 8) -> None:
    """A round is a part or two of each stream; about seven complete a chunk."""
    for name, wire in wires.items():
        assert wire.ask("PUT", name, content_type="text/plain").status == 201
    for number in range(rounds):
        for name, wire in wires.items():
            body = f"{name} {number} ".encode() * 30
            assert wire.ask("POST", name, body, content_type="text/plain").status == 204
        seal_all(server)


def test_parts_become_chunks_and_nothing_else_changes(
    server: RunningServer, wire: Wire, spark: SparkSession
) -> None:
    names = [f"s{number}" for number in range(4)]
    in_crumbs(server, dict.fromkeys(names, wire))
    before = {name: wire.read_all(name) for name in names}
    count = len(parts(server))
    dry = run(server, spark, is_dry_run=True)
    assert len(parts(server)) == count
    summary = run(server, spark, batch_cost=1)
    assert summary.damaged == []
    assert summary.lost == {}
    assert summary.streams_compacted == dry.streams_compacted >= 4
    assert summary.parts_before == dry.parts_before == count
    assert (summary.chunks_after, summary.parts_after) == (dry.chunks_after, dry.parts_after)
    assert summary.requests_saved == dry.requests_saved > 0
    assert summary.bytes_after < summary.bytes_before
    wait_until(lambda: len(parts(server)) == summary.parts_after, what="the janitor")
    assert {name: wire.read_all(name) for name in names} == before
    assert fsck(server)["problems"] == []
    again = run(server, spark)
    assert again.streams_compacted == 0
    assert again.chunks_complete == summary.chunks_after
    assert "compacted 0 of" in report(again)


def test_only_the_streams_that_are_asked_for(
    server: RunningServer, wire: Wire, spark: SparkSession
) -> None:
    with Wire(server.url, root="/ds/") as buckets:
        assert buckets.ask("PUT", "box-a").status == 201
        wires = {"a": wire, "b": wire, "box-a/a": buckets}
        in_crumbs(server, wires, rounds=2)
        assert run(server, spark, "b").streams_compacted == 1
        assert run(server, spark, "b").streams_compacted == 0
        assert run(server, spark, "__ds/box-a/*").streams_compacted == 1
        assert run(server, spark, "a").streams_compacted == 1


def test_damage_does_not_stop_the_others_and_the_command_says_so(
    server: RunningServer, wire: Wire
) -> None:
    in_crumbs(server, {"good": wire, "bad": wire}, rounds=3)
    before = wire.read_all("good")
    victim = next(key for key in parts(server) if "/bad/" in key)
    path = objects_of(server) / victim
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    done = command(server, "compact", "--master", "local[2]", "--json")
    assert done.returncode == 3, done.stderr
    summary = json.loads(done.stdout)
    assert [one["stream"] for one in summary["damaged"]] == ["bad"]
    assert victim in summary["damaged"][0]["reason"]
    assert summary["streams_compacted"] >= 1
    assert "chunks begun" in done.stderr
    wait_until(
        lambda: len([key for key in parts(server) if "/good/" in key]) == 1, what="the janitor"
    )
    assert wire.read_all("good") == before
    nothing = command(server, "compact", "--stream", "good")
    assert (nothing.returncode, nothing.stderr) == (0, "")
    assert "compacted 0 of 1 streams" in nothing.stdout
    dry = command(server, "compact", "--stream", "bad", "--dry-run")
    assert dry.returncode == 0
    assert "would compact 1 of 1 streams" in dry.stdout


def test_tiers_that_cannot_be_used_are_one_line_and_exit_code_1(
    server: RunningServer, tmp_path: Path
) -> None:
    with RunningServer(env=ENV) as other:
        stranger = f"file://{objects_of(other)}"
        refusals = [
            (["--objects", stranger], "different deployments"),
            (["--objects", f"file://{tmp_path}"], "holds no streams"),
            (["--objects", "/nowhere/at/all"], "cannot be used"),
            (["--redis", "redis://127.0.0.1:1"], "cannot be reached"),
            (["--redis", "http://localhost"], "no address"),
            (["--data-dir", str(tmp_path)], "no server has run on"),
        ]
        for arguments, reason in refusals:
            done = command(server, "compact", *arguments)
            assert done.returncode == 1
            assert reason in done.stderr
            assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert command(server, "compact", "--bucket", "A/B").returncode == 2
