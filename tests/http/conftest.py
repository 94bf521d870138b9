"""Servers that a whole run shares; a stream's name is never used by two tests."""

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from support.client import JSON, NewStream, Stream, unbounded_session, unique_name
from support.server import RunningServer


@pytest.fixture(scope="session")
def server() -> Iterator[RunningServer]:
    """As people run it: two workers, and waits that are longer than any test."""
    with RunningServer(workers=2, long_poll_timeout_secs=30) as running:
        yield running


@pytest.fixture(scope="session")
def server_with_small_chunks() -> Iterator[RunningServer]:
    with RunningServer(workers=2, long_poll_timeout_secs=30, chunk_bytes=1024) as running:
        yield running


@pytest.fixture(scope="session")
def impatient_server() -> Iterator[RunningServer]:
    """Its long-polls and its SSE connections end soon."""
    env = {"DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "1"}
    with RunningServer(workers=2, long_poll_timeout_secs=0.5, env=env) as running:
        yield running


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with unbounded_session() as session:
        yield session


@pytest.fixture
def new_stream(server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    return on(server, http)


@pytest.fixture
def new_small_chunk_stream(
    server_with_small_chunks: RunningServer, http: aiohttp.ClientSession
) -> NewStream:
    return on(server_with_small_chunks, http)


@pytest.fixture
def new_impatient_stream(impatient_server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    return on(impatient_server, http)


def on(server: RunningServer, http: aiohttp.ClientSession) -> NewStream:
    def new(content_type: str = JSON, name: str | None = None) -> Stream:
        return Stream(http, f"{server.url}/v1/stream/{name or unique_name()}", content_type)

    return new
