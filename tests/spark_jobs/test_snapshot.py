"""`ds-spark snapshot`: its job on the Spark of the tests."""

import json
import threading
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession
from support.ds_spark import ask
from support.repairs import keys_in, objects_of, seal_all
from support.server import RunningServer, wait_until
from support.snapshots import BUCKET, ENV, JSON, LIMIT, Streams, change, line_of, rule, run

from spark.rules import Rule
from spark.snapshot_report import report
from spark.snapshot_summary import Progress, Summary

pytestmark = pytest.mark.timeout(240)

RULES = [
    rule("last-by-key", "last*", key="/id", tombstone="/gone"),
    rule("concat", "all*"),
    rule("state"),
]


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=2000, env=ENV) as running:
        yield running


@pytest.fixture
def streams(server: RunningServer) -> Iterator[Streams]:
    with Streams(server) as streams:
        yield streams


def is_quiet(server: RunningServer, rules: list[Rule] = RULES) -> bool:
    """The bucket tells of the snapshots that are in force."""
    return run(server, None, rules, is_dry_run=True).lines == []


def outcomes(summary: Summary) -> dict[str, str]:
    return {line.stream.removeprefix(f"__ds/{BUCKET}/"): line.outcome for line in summary.lines}


def test_each_fold_goes_on_where_its_snapshot_ends(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    streams.create("state")
    streams.create("last")
    streams.create("all-json")
    streams.create("all-bytes", "application/octet-stream")
    streams.create("last-empty")
    for start in (0, 100):
        numbers = range(start, start + 100)
        streams.append("state", *(change(f"k{n % 7}", {"n": n}) for n in numbers))
        for n in numbers:
            streams.append("last", b'{"id":%d,\n"n":%d}' % (n % 5, n), b'{"id":"\\u00e9","n":1}')
            streams.append("all-bytes", b"<%d>" % n)
        streams.append("last", b'{"id":3,"gone":true}', b'{"id":"x","gone":false,"e":1e400}')
        streams.append("last-empty", b'{"id":1,"gone":true}')
        streams.append("all-json", *(b'{"n": %d}' % n for n in numbers), b"[]", b"null")
        seal_all(server)
        streams.append("state", change("tail", 1))
        summary = run(server, spark, RULES, partition_bytes=200_000)
        assert set(outcomes(summary).values()) == {"published"}, summary
        wait_until(lambda: is_quiet(server), what="the manifests")
        wait_until(lambda: len(keys_in(server, "snapshots/")) == 5, what="the janitor")
    bootstrap = streams.bootstrap("state")
    assert bootstrap.messages == [change("tail", 1)]
    assert bootstrap.snapshot.content_type == "application/json; fold=state"
    _, *changes, _ = json.loads(bootstrap.snapshot.body)
    assert [one["value"] for one in changes] == [1, *({"n": n} for n in range(193, 200))]
    line = line_of(summary, "state")
    assert (line.messages, line.keys, line.bad) == (101, 8, 0)
    assert line.bytes_after == len(bootstrap.snapshot.body) < line.bytes_before
    assert streams.body("last") == (
        b'[\n{"id":0, "n":195},\n{"id":1, "n":196},\n{"id":2, "n":197},\n{"id":4, "n":199},\n'
        b'{"id":"\\u00e9","n":1},\n{"id":"x","gone":false,"e":1e400}\n]'
    )
    assert streams.body("last-empty") == b"[\n]"
    assert streams.body("all-json") == b"[%b]" % b",".join(streams.written["all-json"])
    assert streams.body("all-bytes") == b"".join(streams.written["all-bytes"])
    types = [streams.snapshot(name)["Content-Type"] for name in ("last", "all-bytes")]
    assert types == [
        'application/json; fold=last-by-key; key="/id"; tombstone="/gone=true"',
        "application/octet-stream; fold=concat",
    ]
    assert "published snapshots of 5 of 5 streams" in report(summary)


def test_what_others_did_meanwhile_is_told_and_stops_nobody(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    names = ("another", "deleted", "newer", "published", "too-large")
    for name in names:
        streams.create(name)
        streams.append(name, change("key", "x" * (LIMIT if name == "too-large" else 3)))
    seal_all(server)

    def interfere(progress: Progress) -> None:
        if progress.doing != "publishing" or progress.done:
            return
        assert streams.ask("DELETE", "deleted").status == 204
        here = streams.ask("HEAD", "another")["Stream-Next-Offset"]
        assert streams.ask("PUT", f"another/snapshot/{here}", b"mine").status == 204
        streams.append("newer", change("key", 2))
        there = streams.ask("HEAD", "newer")["Stream-Next-Offset"]
        assert streams.ask("PUT", f"newer/snapshot/{there}", b"newer").status == 204

    summary = run(server, spark, watch=interfere)
    assert outcomes(summary) == {name: name for name in names}
    assert summary.is_broken
    assert streams.body("another") == b"mine"
    assert streams.body("newer") == b"newer"
    assert b'"xxx"' in streams.body("published")
    assert streams.ask("GET", "too-large/snapshot").status == 404
    text = report(summary)
    assert "1: a newer snapshot is in force" in text
    assert f"too-large: A snapshot may have at most {LIMIT} bytes." in text
    streams.append("another", change("key", 2))
    seal_all(server)
    again = run(server, None, stream="another")
    assert outcomes(again) == {"another": "other-fold"}, "nobody knows what it stands for"


def test_a_server_that_is_away_for_a_while_is_waited_for(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    for number in range(5):
        streams.create(f"s{number}")
        streams.append(f"s{number}", change("key", number))
    seal_all(server)

    def stop(progress: Progress) -> None:
        if progress.doing == "publishing" and not progress.done:
            server.stop()

    gone = run(server, spark, watch=stop, patience_secs=0)
    assert set(outcomes(gone).values()) == {"unavailable"}
    assert "does not answer" in (gone.unavailable or "")
    back = threading.Thread(target=server.start)

    def start(progress: Progress) -> None:
        if progress.doing == "publishing" and not progress.done:
            server.stop()
            back.start()

    server.start()
    there = run(server, spark, watch=start)
    back.join()
    assert set(outcomes(there).values()) == {"published"}


def test_damage_concerns_only_the_stream_that_has_it(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    for name in ("sound", "body", "snapshot", "snapshot-lost", "missing", "all-broken"):
        streams.create(name)
        streams.append(name, *(change(f"k{n}", "x" * 100) for n in range(50)))
    seal_all(server)
    assert run(server, spark, RULES, stream="snapshot*").published == 2
    streams.append("snapshot", change("more", 1))
    streams.append("snapshot-lost", change("more", 1))
    seal_all(server)
    for name in ("body", "all-broken"):
        damage(
            next(key for key in keys_in(server, f"{name}/") if key.startswith("chunks/")), server
        )
    damaged, lost = keys_in(server, "snapshots/")
    damage(damaged, server)
    (objects_of(server) / lost).unlink()
    (objects_of(server) / keys_in(server, "missing/")[0]).unlink()
    wait_until(lambda: len(run(server, None, RULES, is_dry_run=True).lines) == 6, what="manifests")
    summary = run(server, spark, RULES)
    found = outcomes(summary)
    assert found.pop("sound") == "published"
    assert len(found) == 5
    assert set(found.values()) == {"damaged"}
    assert summary.is_broken


def damage(key: str, server: RunningServer) -> None:
    path = objects_of(server) / key
    path.chmod(0o600)
    path.write_bytes(path.read_bytes().replace(b"x", b"y", 1))


def test_streams_outside_of_buckets_have_no_snapshots_and_forks_have_their_sources(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    streams.create("source")
    streams.append("source", *(change(f"k{n}", n) for n in range(30)))
    seal_all(server)
    assert run(server, spark).published == 1
    forked = streams.ask("PUT", "fork", stream_forked_from=f"/ds/{BUCKET}/source")
    assert forked.status == 201, forked.body
    streams.types["fork"], streams.written["fork"] = JSON, []
    streams.append("fork", change("k0", "fork's"))
    seal_all(server)
    wait_until(lambda: is_quiet(server) is False, what="the manifest of the fork")
    summary = run(server, spark, stream="fork")
    assert line_of(summary, "fork").keys == 30
    _, *changes, _ = json.loads(streams.body("fork"))
    assert [one["value"] for one in changes] == [*range(1, 30), "fork's"]
    streams.wire.root = "/v1/stream/"
    assert streams.wire.ask("PUT", "plain", content_type=JSON).status == 201
    assert streams.wire.ask("POST", "plain", b"[1]", content_type=JSON).status == 204
    seal_all(server)
    code, _, said = ask(server, "snapshot", "--fold", "state", "--stream", "plain")
    assert code == 1
    assert "'plain' is in no bucket" in said
