"""Real object servers for tests: moto, SeaweedFS, and MinIO or any other where there is one."""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import aiobotocore.session
import botocore.session
from aiobotocore.session import AioSession
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from moto.server import ThreadedMotoServer
from support.needs import need
from support.server import wait_until

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "ds-test", "AWS_SECRET_ACCESS_KEY": "ds-test-secret"}
SEAWEEDFS_PARTS = ("s3", "master", "filer", "volume", "admin")
SEAWEEDFS_OFF = ("s3.port.iceberg=0", "s3.port.lance=0", "webdav=false", "admin.ui=false")


@dataclass(frozen=True)
class ObjectServer:
    """An S3 endpoint with a bucket; `environment` is what a client of it must find there."""

    endpoint: str
    environment: Mapping[str, str]
    bucket: str = "ds-test"

    @cached_property
    def client(self) -> Any:
        """A plain client, for what a test does behind the store's back."""
        return botocore.session.get_session().create_client(
            "s3",
            endpoint_url=self.endpoint,
            region_name=self.environment.get("AWS_REGION", "us-east-1"),
            aws_access_key_id=self.environment["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=self.environment["AWS_SECRET_ACCESS_KEY"],
            config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
        )

    def settings(self, prefix: str) -> dict[str, str]:
        """For a server that keeps its history here, whatever else the machine knows of AWS."""
        return {
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.environment,
            "DS_OBJECTS__URL": f"s3://{self.bucket}/{prefix}",
            "DS_OBJECTS__ENDPOINT": self.endpoint,
            "DS_OBJECTS__REGION": "us-east-1",
        }

    def keys(self, prefix: str) -> list[str]:
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix)
        return [entry["Key"] for entry in listed.get("Contents", [])]

    def make_bucket(self) -> bool:
        """Whether the server was there to do it."""
        try:
            self.client.create_bucket(Bucket=self.bucket)
        except (BotoCoreError, ClientError):
            return False
        return True

    @cached_property
    def session(self) -> AioSession:
        """For a store's client: it takes a while to make and keeps the credentials."""
        session = aiobotocore.session.get_session()
        session.set_credentials(*(self.environment[name] for name in CREDENTIALS))
        return session


@contextlib.contextmanager
def moto() -> Iterator[ObjectServer]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        running = ObjectServer(f"http://{host}:{port}", CREDENTIALS)
        wait_until(running.make_bucket)
        yield running
    finally:
        server.stop()


def seaweedfs() -> AbstractContextManager[ObjectServer]:
    ports = free_ports(2 * len(SEAWEEDFS_PARTS))
    names = [f"{part}.port{kind}" for part in SEAWEEDFS_PARTS for kind in ("", ".grpc")]
    command = [need("weed"), "mini", "-dir=.", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"]
    command += ["-s3.localSocket=s3.sock"]  # In /tmp it would stay behind.
    command += ["-master.telemetry=false", *(f"-{setting}" for setting in SEAWEEDFS_OFF)]
    command += [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
    return _started(command, CREDENTIALS, ports[0])


def minio() -> AbstractContextManager[ObjectServer]:
    port, console = free_ports(2)
    command = [need("minio"), "server", ".", "--address", f"127.0.0.1:{port}"]
    command += ["--console-address", f"127.0.0.1:{console}"]
    user, password = CREDENTIALS.values()
    return _started(command, {"MINIO_ROOT_USER": user, "MINIO_ROOT_PASSWORD": password}, port)


@contextlib.contextmanager
def from_outside() -> Iterator[ObjectServer]:
    """At `DS_TEST_S3_ENDPOINT`, with the AWS variables of the environment."""
    known = {name: value for name, value in os.environ.items() if name.startswith("AWS_")}
    bucket = os.environ.get("DS_TEST_S3_BUCKET", "ds-test")
    server = ObjectServer(os.environ["DS_TEST_S3_ENDPOINT"], known, bucket)
    server.make_bucket()
    yield server


def another() -> Callable[[], AbstractContextManager[ObjectServer]] | None:
    """A server that not every machine has, where there is one."""
    if os.environ.get("DS_TEST_S3_ENDPOINT"):
        return from_outside
    return minio if shutil.which("minio") else None


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


@contextlib.contextmanager
def _started(
    command: Sequence[str], environment: Mapping[str, str], port: int
) -> Iterator[ObjectServer]:
    folder = Path(tempfile.mkdtemp(prefix="ds-test-objects-"))
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env=os.environ | environment, stdout=log, stderr=log
        )
    try:
        server = ObjectServer(f"http://127.0.0.1:{port}", CREDENTIALS)
        wait_until(lambda: process.poll() is not None or server.make_bucket())
        assert process.poll() is None, (folder / "log").read_text(errors="replace")
        yield server
    finally:
        _end(process)
        shutil.rmtree(folder, ignore_errors=True)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
