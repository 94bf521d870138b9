"""`ds-spark snapshot`: its job on the Spark of the tests, and the command as cron runs it."""

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.bootstrapped import START, fold
from support.repairs import keys_in, objects_of, seal_all
from support.server import RunningServer, wait_until
from support.snapshots import BUCKET, JSON, Streams, ask, command, line_of, rule, run

from spark.rules import Rule
from spark.snapshot_report import report
from spark.snapshot_summary import Progress, Summary

pytestmark = pytest.mark.timeout(240)

LIMIT = 100_000
ENV = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
    "DS_LIMITS__MAX_SNAPSHOT_BYTES": str(LIMIT),
}
RULES = [
    rule("last-by-key", "last*", key="/id", tombstone="/gone"),
    rule("concat", "all*"),
    rule("state"),
]
USERS_FOLDS = """
import hashlib

def chained(previous, messages):
    state = previous or hashlib.sha256().digest()
    for message in messages:
        state = hashlib.sha256(state + hashlib.sha256(message).digest()).digest()
    yield state[:5]
    yield state[5:]

def broken(previous, messages):
    raise ValueError(next(messages))
"""
FILE = """
[[rule]]
stream = "chained"
fold = "folds:chained"
content_type = "application/x-digest"

[[rule]]
stream = "broken"
fold = "folds:broken"

[[rule]]
stream = "few-bad"
fold = "state"
max_bad = 4

[[rule]]
fold = "state"
bytes = "1KiB"
"""


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=2000, env=ENV) as running:
        yield running


@pytest.fixture
def streams(server: RunningServer) -> Iterator[Streams]:
    with Streams(server) as streams:
        yield streams


def change(key: str, value: object, operation: str = "upsert") -> bytes:
    message = {"type": "t", "key": key, "value": value, "headers": {"operation": operation}}
    return json.dumps(message).encode()


def body(streams: Streams, name: str) -> bytes:
    return streams.snapshot(name).body


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
    assert body(streams, "last") == (
        b'[\n{"id":0, "n":195},\n{"id":1, "n":196},\n{"id":2, "n":197},\n{"id":4, "n":199},\n'
        b'{"id":"\\u00e9","n":1},\n{"id":"x","gone":false,"e":1e400}\n]'
    )
    assert body(streams, "last-empty") == b"[\n]"
    assert body(streams, "all-json") == b"[%b]" % b",".join(streams.written["all-json"])
    assert body(streams, "all-bytes") == b"".join(streams.written["all-bytes"])
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
    assert body(streams, "another") == b"mine"
    assert body(streams, "newer") == b"newer"
    assert b'"xxx"' in body(streams, "published")
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


def test_a_run_of_cron_does_what_is_due_by_its_rules(
    server: RunningServer, streams: Streams, tmp_path: Path
) -> None:
    streams.create("chained", "text/plain")
    streams.append("chained", b"a", b"b", b"c")
    streams.create("broken")
    streams.append("broken", b'"why not"')
    streams.create("few-bad", "text/plain")
    bad = (b"[1]", b"no JSON", b"\xff\xfe", b'{"type":"t","headers":{"operation":"insert"}}')
    streams.append("few-bad", change("k", 1), *bad)
    streams.create("many-bad")
    streams.append("many-bad", change("k", "x" * 2000), b'{"type":"t","key":7}')
    streams.create("large")
    streams.append("large", change("k", "x" * 2000))
    streams.create("small")
    streams.append("small", change("k", "x"))
    seal_all(server)
    (server.home / "folds.py").write_text(USERS_FOLDS)
    (server.home / "rules.toml").write_text(FILE)
    dry = command(server, "--retain", "rules.toml", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "due: 5 of 6 streams" in dry.stdout
    streams.wire.close()
    done = command(server, "--retain", "rules.toml", "--json", "--master", "local[2]")
    assert done.returncode == 3, done.stderr
    lines = {line["stream"].split("/")[-1]: line for line in json.loads(done.stdout)["lines"]}
    assert {name: line["outcome"] for name, line in lines.items()} == {
        "chained": "published",
        "broken": "failed",
        "few-bad": "published",
        "many-bad": "bad",
        "large": "published",
    }
    assert body(streams, "chained") == fold(streams.written["chained"], START)
    assert streams.snapshot("chained")["Content-Type"] == (
        'application/x-digest; fold="folds:chained"'
    )
    assert lines["few-bad"]["bad"] == 4
    assert [one["beginning"] for one in lines["few-bad"]["samples"]] == ["[1]", "no JSON", "��"]
    assert lines["many-bad"]["samples"][0]["reason"] == "Expected `str`, got `int` - at `$.key`"
    assert "ValueError: b'\"why not\"'" in lines["broken"]["reason"]
    assert "ds-spark: folding" in done.stderr
    assert streams.ask("GET", "many-bad/snapshot").status == 404


def test_what_cannot_be_asked_or_reached_is_one_line(
    server: RunningServer, streams: Streams, tmp_path: Path
) -> None:
    streams.create("s")
    streams.append("s", change("k", 1))
    seal_all(server)
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nfold = "state"\nevry = "1h"\n')
    refusals = [
        (2, ["--retain", str(rules)], "unknown field `evry`"),
        (2, ["--fold", "sum"], "no fold"),
        (2, ["--fold", "nowhere:at_all"], "cannot be loaded"),
        (2, ["--fold", "last-by-key"], "JSON pointer"),
        (1, ["--fold", "state", "--server", "http://127.0.0.1:1"], "does not answer"),
        (1, ["--fold", "state", "--server", "127.0.0.1"], "is no server"),
        (1, ["--fold", "state", "--objects", f"file://{tmp_path}"], "holds no streams"),
    ]
    for code, arguments, reason in refusals:
        found, said = ask(server, *arguments)
        assert (found, len(said.splitlines())) == (code, 1), said
        assert reason in said
    code, said = ask(server, "--fold", "state", "--stream", "nobody")
    assert (code, said.split(" in ")[0]) == (
        0,
        "published snapshots of 0 of 0 streams",
    )


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
    _, *changes, _ = json.loads(body(streams, "fork"))
    assert [one["value"] for one in changes] == [*range(1, 30), "fork's"]
    streams.wire.root = "/v1/stream/"
    assert streams.wire.ask("PUT", "plain", content_type=JSON).status == 201
    assert streams.wire.ask("POST", "plain", b"[1]", content_type=JSON).status == 204
    seal_all(server)
    code, said = ask(server, "--fold", "state", "--stream", "plain")
    assert code == 1
    assert "'plain' is in no bucket" in said
