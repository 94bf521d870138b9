"""`ds-spark export` as cron runs it, on a bucket, on a full disk, killed, and twice at once."""

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from support import object_servers
from support.exported import by_duckdb
from support.repairs import NEVER, seal_all
from support.server import RunningServer, wait_until
from support.small_disk import small_disk
from support.spark_world import JSON, TEXT, World
from support.wire import Wire

from spark import cli
from spark.export.directory import Directory
from spark.export.job import Wish, export
from spark.export.workforce import Executors
from spark.options import Bucket
from tiering.errors import Unavailable
from tiering.objects.open import Credentials

pytestmark = pytest.mark.timeout(300)

COMMAND = Path(sys.executable).parent / "ds-spark"
QUICK = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
NO_SPARK = {"JAVA_HOME": "/nowhere"}
START_SECS = 200


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with (
        object_servers.seaweedfs() as store,
        RunningServer(env=NEVER | store.settings("export")) as running,
    ):
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


def words(to: Path, *more: str) -> list[str | Path]:
    return [COMMAND, "export", "--to", to, "--master", "local[2]", *more]


def run(server: RunningServer, to: Path, *more: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        words(to, *more),
        env=server.environment | env,
        cwd=server.home,
        capture_output=True,
        text=True,
        timeout=START_SECS,
    )
    return done.returncode, done.stdout, done.stderr


def said(server: RunningServer, to: Path, *more: str) -> tuple[int, str, str]:
    """The same without a process of its own, for what does not come as far as Spark."""
    printed, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, server.environment, clear=True),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        try:
            code = cli.main(["export", "--to", str(to), *more])
        except SystemExit as end:
            code = int(end.code or 0)
    return code, printed.getvalue(), errors.getvalue()


def kill_one_that_has_begun(server: RunningServer, to: Path) -> None:
    log = server.home / "ds-spark.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            words(to),
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


def test_a_run_is_killed_and_the_next_one_does_the_work(
    server: RunningServer, world: World, tmp_path: Path
) -> None:
    """When there is nothing new, Spark is not started."""
    to = tmp_path / "exported"
    code, printed, errors = said(server, to, "--dry-run")
    assert (code, errors, to.exists()) == (0, "", False)
    assert "would export" in printed
    kill_one_that_has_begun(server, to)
    code, printed, errors = run(server, to, "--json", **QUICK)
    assert code == 0, errors
    assert json.loads(printed)["streams"] == 2
    world.hang_up()
    world.assert_told_by_http()
    assert by_duckdb(to) == world.rows()
    code, printed, errors = run(server, to, **NO_SPARK)
    assert (code, errors) == (0, "")
    assert "streams with nothing new: 2" in printed


def test_what_cannot_be_is_one_line_and_an_exit_code(
    server: RunningServer, world: World, tmp_path: Path
) -> None:
    to, file, strange = tmp_path / "to", tmp_path / "file", tmp_path / "strange"
    file.write_text("not a directory")
    (strange / "stream_dir=a").mkdir(parents=True)
    with Directory(to).open():
        assert said(server, to) == (4, "", f"ds-spark: another export to {to} is at work\n")
    (to / "_export" / "state.json").write_text('{"version": 1, "deployment": "another"}')
    refusals = [
        ([to], 1, "another deployment"),
        ([file], 1, "cannot be used"),
        ([strange], 1, "exported files but no _export/state.json"),
        ([tmp_path / "new", "--objects", str(tmp_path)], 1, "holds no streams"),
        ([tmp_path / "new", "--bucket", "A/B"], 2, "4 to 64 of the characters"),
    ]
    for arguments, expected, reason in refusals:
        code, printed, errors = said(server, *arguments)  # type: ignore[arg-type]
        assert (code, printed) == (expected, "")
        [line] = [line for line in errors.splitlines() if line.startswith("ds-spark")]
        assert reason in line


def test_a_full_disk_is_an_error_that_leaves_nothing_and_passes(
    server: RunningServer, world: World, spark: SparkSession
) -> None:
    bucket = Bucket(
        server.settings["DS_OBJECTS__URL"],
        server.settings["DS_OBJECTS__ENDPOINT"],
        "us-east-1",
        Credentials(server.settings["AWS_ACCESS_KEY_ID"], server.settings["AWS_SECRET_ACCESS_KEY"]),
    )
    world.hang_up()
    expected = world.rows()
    with small_disk(2) as disk:
        to = disk.path / "exported"
        wish = Wish(bucket, Directory(to))
        to.mkdir()
        (to / "_export").mkdir()
        disk.fill()
        with pytest.raises(Unavailable, match="No space left"):
            export(wish, lambda: Executors(spark))
        assert list(to.rglob("*.parquet")) == []
        disk.empty()
        assert export(wish, lambda: Executors(spark)).rows == len(expected)
        assert by_duckdb(to) == expected
