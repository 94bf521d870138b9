"""`ds-spark compact`: its job on the Spark of the tests."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession
from support.crumbs import CHUNK, ENV, in_crumbs, parts
from support.repairs import fsck
from support.server import RunningServer, wait_until
from support.wire import Wire

from spark.compact import Summary, compact
from spark.deployment import Deployment
from spark.report import report

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=CHUNK, env=ENV) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def run(server: RunningServer, spark: SparkSession, pattern: str = "*", **more: Any) -> Summary:
    deployment = Deployment.parse({"data_dir": str(server.data_dir)}, {})
    return asyncio.run(compact(deployment, lambda: spark, pattern, **more))


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
