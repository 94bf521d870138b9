"""The server with its history in a real S3 store, and what it says when it cannot use one."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import object_servers
from support.client import unique_name
from support.object_servers import ObjectServer, free_ports
from support.server import RunningServer, wait_until
from support.wire import Wire

TEXT = "text/plain"
CHUNK = 4096
NO_AWS_OF_THIS_MACHINE = {
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="module")
def seaweedfs() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


def environment(store: ObjectServer, prefix: str) -> dict[str, str]:
    return {
        **NO_AWS_OF_THIS_MACHINE,
        **store.environment,
        "DS_OBJECTS__URL": f"s3://{store.bucket}/{prefix}",
        "DS_OBJECTS__ENDPOINT": store.endpoint,
        "DS_OBJECTS__REGION": "us-east-1",
    }


def stats(server: RunningServer, env: dict[str, str]) -> dict[str, dict[str, int]]:
    known = os.environ | env | {"DS_STORAGE__DATA_DIR": str(server.data_dir)}
    command = [Path(sys.executable).parent / "ds-server", "stats", "--json"]
    printed = subprocess.run(command, env=known, check=True, capture_output=True, text=True)
    return {entry["stream"]: entry for entry in json.loads(printed.stdout)["streams"]}


@pytest.mark.timeout(180)
def test_a_stream_lives_in_the_bucket_and_reads_back_whole(seaweedfs: ObjectServer) -> None:
    prefix, name = uuid.uuid4().hex, unique_name()
    env = environment(seaweedfs, prefix) | {"DS_TIERING__SEAL_AGE_SECS": "0"}
    with RunningServer(workers=2, chunk_bytes=CHUNK, env=env) as server:
        wire = Wire(server.url)
        wire.ask("PUT", name, content_type=TEXT)
        written = b""
        for number in range(60):
            data = b"%04d " % number * 100
            assert wire.ask("POST", name, data, content_type=TEXT).status == 204
            written += data
        wire.ask("POST", name, stream_closed="true")
        wait_until(
            lambda: stats(server, env)[name]["sealed_bytes"] == len(written), what="it to be sealed"
        )
        assert wire.read_all(name) == written
        wire.close()
        server.stop()
    listed = seaweedfs.client.list_objects_v2(Bucket=seaweedfs.bucket, Prefix=prefix)
    kinds = {entry["Key"].split("/")[1] for entry in listed["Contents"]}
    assert kinds >= {"deployment", "index", "manifest"}
    assert kinds & {"chunks", "parts"}


def refusal(env: dict[str, str]) -> str:
    server = RunningServer(env=env)
    try:
        code, printed = server.expect_refusal()
    finally:
        server.close()
    assert code == 1
    lines = [line for line in printed.splitlines() if line.startswith("ds-server:")]
    assert len(lines) == 1, printed
    assert "Traceback" not in printed
    return lines[0]


@pytest.mark.timeout(120)
def test_a_missing_bucket_is_said_in_one_line(seaweedfs: ObjectServer) -> None:
    env = environment(seaweedfs, "x") | {"DS_OBJECTS__URL": "s3://no-such-bucket/x"}
    assert "no-such-bucket" in refusal(env)


@pytest.mark.timeout(120)
def test_wrong_credentials_are_said_in_one_line(seaweedfs: ObjectServer) -> None:
    env = environment(seaweedfs, "x") | {"AWS_SECRET_ACCESS_KEY": "wrong"}
    assert seaweedfs.bucket in refusal(env)


@pytest.mark.timeout(120)
def test_a_store_that_is_not_there_is_said_in_one_line(seaweedfs: ObjectServer) -> None:
    [port] = free_ports(1)
    env = environment(seaweedfs, "x") | {"DS_OBJECTS__ENDPOINT": f"http://127.0.0.1:{port}"}
    assert str(port) in refusal(env)


@pytest.mark.timeout(120)
def test_a_second_deployment_on_the_same_prefix_is_refused(seaweedfs: ObjectServer) -> None:
    env = environment(seaweedfs, uuid.uuid4().hex)
    with RunningServer(env=env) as server:
        server.stop()
    assert "ds-server recover" in refusal(env)
