"""`ds-spark compact` as cron runs it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.crumbs import CHUNK, ENV, in_crumbs, parts
from support.ds_spark import ask, command
from support.repairs import objects_of
from support.server import RunningServer, wait_until
from support.wire import Wire

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=CHUNK, env=ENV) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.mark.usefixtures("java")
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
    code, printed, errors = ask(server, "compact", "--stream", "bad", "--dry-run")
    assert (code, errors) == (0, "")
    assert "would compact 1 of 1 streams" in printed


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
            code, printed, errors = ask(server, "compact", *arguments)
            assert (code, printed) == (1, "")
            assert reason in errors
            assert len(errors.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
    assert command(server, "compact", "--bucket", "A/B").returncode == 2
