"""Edges and servers that a whole run shares; a stream's name is never used by two tests."""

from collections.abc import AsyncIterator, Callable, Iterator

import aiohttp
import pytest
from support.client import JSON, Stream, unbounded_session, unique_name
from support.edge_stack import Stack, embedded, on_a_bucket
from support.object_servers import seaweedfs


@pytest.fixture(scope="session")
def embedded_stack() -> Iterator[Stack]:
    with embedded("varnish", "nginx", "lonely") as stack:
        yield stack


@pytest.fixture(scope="session")
def bucket_stack() -> Iterator[Stack]:
    with seaweedfs() as store, on_a_bucket(store) as stack:
        yield stack


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with unbounded_session() as session:
        yield session


Place = Callable[[str, str], Stream]


@pytest.fixture
def at(http: aiohttp.ClientSession) -> Callable[..., Stream]:
    """A stream at a server or an edge, by its URL."""

    def stream(url: str, name: str | None = None, content_type: str = JSON) -> Stream:
        return Stream(http, f"{url}/v1/stream/{name or unique_name()}", content_type)

    return stream
