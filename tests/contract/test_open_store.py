"""The addresses an operator may give."""

from pathlib import Path

import pytest
from support.object_servers import ObjectServer

from tiering.errors import Refused
from tiering.objects.open import open_store


async def test_a_file_url_is_a_directory(tmp_path: Path) -> None:
    async with open_store(f"file://{tmp_path}/with%20space") as store:
        await store.put_if_absent("a/1", b"body")
    assert (tmp_path / "with space/a/1").read_bytes() == b"body"


@pytest.mark.parametrize("prefix", ["", "/", "/deep/er", "/deep/er/"])
async def test_an_s3_url_is_a_bucket_and_a_prefix(
    moto: ObjectServer, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    for name, value in moto.environment.items():
        monkeypatch.setenv(name, value)
    async with open_store(f"s3://{moto.bucket}{prefix}", endpoint=moto.endpoint) as store:
        await store.put("opened", b"body")
    key = f"{prefix}/opened".replace("//", "/").removeprefix("/")
    found = moto.client.get_object(Bucket=moto.bucket, Key=key)
    assert found["Body"].read() == b"body"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/tmp/x",
        "file://host/x",
        "file:x",
        "s3:///x",
        "s3://",
        "gs://b",
        "s3://b/../c",
        "s3://b/a b",
    ],
)
def test_anything_else_is_refused_in_one_line(url: str) -> None:
    with pytest.raises(Refused, match=r"^[^\n]*names no object store[^\n]*$"):
        open_store(url)
