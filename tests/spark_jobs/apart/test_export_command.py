"""`ds-spark export` as cron runs it, on a bucket, killed, and twice at once."""

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.ds_spark import COMMAND, ask, command
from support.exported import by_duckdb
from support.object_servers import ObjectServer
from support.quick_spark import QUICK
from support.repairs import NEVER, seal_all
from support.server import RunningServer, wait_until
from support.spark_world import JSON, TEXT, World
from support.wire import Wire

from spark.export.directory import Directory

pytestmark = pytest.mark.timeout(300)

ON_TWO_CORES = ("--master", "local[2]")
NO_SPARK = {"JAVA_HOME": "/nowhere"}
START_SECS = 200


@pytest.fixture(scope="module")
def server(seaweedfs: ObjectServer) -> Iterator[RunningServer]:
    with RunningServer(env=NEVER | seaweedfs.settings("export")) as running:
        yield running


@pytest.fixture(scope="module")
def world(server: RunningServer) -> Iterator[World]:
    with Wire(server.url) as wire:
        world = World(wire, seed=2)
        for name, content_type in (("a/json", JSON), ("b", TEXT)):
            world.create(content_type, name)
            for _ in range(5):
                world.append(name)
        seal_all(server)
        yield world


def kill_one_that_has_begun(server: RunningServer, to: Path) -> None:
    log = server.home / "ds-spark.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [COMMAND, "export", "--to", to, *ON_TWO_CORES],
            env=server.environment | QUICK,
            cwd=server.home,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
    try:
        wait_until(
            lambda: "batch 1 of" in log.read_text() or process.poll() is not None,
            START_SECS,
            "an export that has begun",
        )
        assert process.poll() in (None, 0), log.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


@pytest.mark.usefixtures("java")
def test_a_run_is_killed_and_the_next_one_does_the_work(
    server: RunningServer, world: World, tmp_path: Path
) -> None:
    """When there is nothing new, Spark is not started."""
    to = tmp_path / "exported"
    code, printed, errors = ask(server, "export", "--to", str(to), "--dry-run")
    assert (code, errors, to.exists()) == (0, "", False)
    assert "would export" in printed
    kill_one_that_has_begun(server, to)
    done = command(server, "export", "--to", str(to), *ON_TWO_CORES, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["streams"] == 2
    world.hang_up()
    world.assert_told_by_http()
    assert by_duckdb(to) == world.rows()
    again = command(server, "export", "--to", str(to), *ON_TWO_CORES, **NO_SPARK)
    assert (again.returncode, again.stderr) == (0, "")
    assert "streams with nothing new: 2" in again.stdout


def test_what_cannot_be_is_one_line_and_an_exit_code(
    server: RunningServer, world: World, tmp_path: Path
) -> None:
    to, file, strange = tmp_path / "to", tmp_path / "file", tmp_path / "strange"
    file.write_text("not a directory")
    (strange / "stream_dir=a").mkdir(parents=True)
    with Directory(to).open():
        busy = ask(server, "export", "--to", str(to))
        assert busy == (4, "", f"ds-spark: another export to {to} is at work\n")
    (to / "_export" / "state.json").write_text('{"version": 1, "deployment": "another"}')
    refusals = [
        ([str(to)], 1, "another deployment"),
        ([str(file)], 1, "cannot be used"),
        ([str(strange)], 1, "exported files but no _export/state.json"),
        ([str(tmp_path / "new"), "--objects", str(tmp_path)], 1, "holds no streams"),
        ([str(tmp_path / "new"), "--bucket", "A/B"], 2, "4 to 64 of the characters"),
    ]
    for arguments, expected, reason in refusals:
        code, printed, errors = ask(server, "export", "--to", *arguments)
        assert (code, printed) == (expected, "")
        [line] = [line for line in errors.splitlines() if line.startswith("ds-spark")]
        assert reason in line
