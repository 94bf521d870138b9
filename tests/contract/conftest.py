"""One object server of each kind, shared by a whole run."""

from collections.abc import Iterator

import pytest
from support import object_servers
from support.object_servers import ObjectServer


@pytest.fixture(scope="session")
def moto() -> Iterator[ObjectServer]:
    with object_servers.moto() as server:
        yield server


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


@pytest.fixture(scope="session")
def another_server() -> Iterator[ObjectServer]:
    start = object_servers.another()
    assert start is not None
    with start() as server:
        yield server


@pytest.fixture(autouse=True)
def no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what a test says itself: no profile, no metadata service."""
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.delenv("AWS_PROFILE", raising=False)
