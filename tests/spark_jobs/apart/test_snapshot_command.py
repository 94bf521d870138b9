"""`ds-spark snapshot` as cron runs it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.bootstrapped import START, fold
from support.ds_spark import ask, command
from support.repairs import seal_all
from support.server import RunningServer
from support.snapshots import ENV, Streams, change

pytestmark = pytest.mark.timeout(240)

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


@pytest.mark.usefixtures("java")
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
    dry = command(server, "snapshot", "--retain", "rules.toml", "--dry-run")
    assert dry.returncode == 0, dry.stderr
    assert "due: 5 of 6 streams" in dry.stdout
    streams.wire.close()
    done = command(server, "snapshot", "--retain", "rules.toml", "--json", "--master", "local[2]")
    assert done.returncode == 3, done.stderr
    lines = {line["stream"].split("/")[-1]: line for line in json.loads(done.stdout)["lines"]}
    assert {name: line["outcome"] for name, line in lines.items()} == {
        "chained": "published",
        "broken": "failed",
        "few-bad": "published",
        "many-bad": "bad",
        "large": "published",
    }
    assert streams.body("chained") == fold(streams.written["chained"], START)
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
        found, printed, said = ask(server, "snapshot", *arguments)
        assert (found, printed, len(said.splitlines())) == (code, "", 1), said
        assert reason in said
    code, printed, said = ask(server, "snapshot", "--fold", "state", "--stream", "nobody")
    assert (code, printed.split(" in ")[0], said) == (
        0,
        "published snapshots of 0 of 0 streams",
        "",
    )
