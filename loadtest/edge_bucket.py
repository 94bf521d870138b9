"""A SeaweedFS whose chunks anyone may read, for an edge that goes straight to them."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from loadtest.ports import free_port

CREDENTIALS = {"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench-secret"}
PARTS = ("s3", "master", "filer", "volume", "admin")
OFF = ("s3.port.iceberg=0", "s3.port.lance=0", "webdav=false", "admin.ui=false")
NAME = "bench"


@dataclass(frozen=True, slots=True)
class Bucket:
    address: str
    name: str

    @property
    def settings(self) -> dict[str, str]:
        endpoint = {"DS_OBJECTS__ENDPOINT": f"http://{self.address}"}
        return {"DS_OBJECTS__URL": f"s3://{self.name}", **endpoint, **CREDENTIALS}


@contextlib.contextmanager
def bucket(folder: Path) -> Iterator[Bucket]:
    folder.mkdir()
    ports = {f"{part}.port{kind}": free_port() for part in PARTS for kind in ("", ".grpc")}
    command = [str(Path(sys.executable).parent / "weed"), "mini", "-dir=.", "-ip=127.0.0.1"]
    command += ["-ip.bind=127.0.0.1", "-s3.localSocket=s3.sock", "-master.telemetry=false"]
    command += [f"-{setting}" for setting in (*OFF, *(f"{n}={p}" for n, p in ports.items()))]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            command, cwd=folder, env={**os.environ, **CREDENTIALS}, stdout=log, stderr=log
        )
    try:
        address = f"127.0.0.1:{ports['s3.port']}"
        while not _is_made(address):
            time.sleep(0.1)
        yield Bucket(address, NAME)
    finally:
        process.terminate()
        process.wait()


def _is_made(address: str) -> bool:
    client: Any = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=f"http://{address}",
        region_name="us-east-1",
        aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        config=Config(s3={"addressing_style": "path"}, retries={"total_max_attempts": 1}),
    )
    chunks = f"arn:aws:s3:::{NAME}/chunks/*"
    anyone = {"Effect": "Allow", "Principal": "*", "Action": ["s3:GetObject"], "Resource": [chunks]}
    try:
        client.create_bucket(Bucket=NAME)
        policy = json.dumps({"Version": "2012-10-17", "Statement": [anyone]})
        client.put_bucket_policy(Bucket=NAME, Policy=policy)
    except (BotoCoreError, ClientError):
        return False
    return True
