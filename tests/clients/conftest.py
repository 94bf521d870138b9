"""One server for all the clients: small chunks, so that a history takes several answers, and
every append in object storage at once."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from support.client import NewStream, Stream, unique_name
from support.server import RunningServer


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    env = {"DS_TIERING__SEAL_AGE_SECS": "0"}
    with RunningServer(workers=2, long_poll_timeout_secs=0.5, chunk_bytes=4096, env=env) as running:
        yield running


@pytest.fixture(scope="session")
def impatient_server() -> Iterator[RunningServer]:
    """Its SSE connections end soon, though not so soon that the npm client takes it for a fault."""
    env = {"DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "1.1"}
    with RunningServer(workers=2, env=env) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@pytest.fixture
def new_stream(server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    """A way to the server that goes past every client and proxy under test."""
    return on(server, http)


@pytest.fixture
def new_impatient_stream(impatient_server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    return on(impatient_server, http)


def on(server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    def new(content_type: str) -> Stream:
        return Stream(http, f"{server.url}/v1/stream/{unique_name()}", content_type)

    return new
