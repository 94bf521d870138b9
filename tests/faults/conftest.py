"""What every test in which something breaks needs."""

import os
import random
import resource
from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest
from support.producers import patient_session
from support.repairs import NEVER
from support.server import RunningServer
from support.wire import Wire

MANY_FILES = 8192


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with patient_session() as session:
        yield session


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """Quiet, with small chunks; modules that want another one have their own."""
    with RunningServer(chunk_bytes=1024, env=NEVER) as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


@pytest.fixture
def enough_files() -> Iterator[None]:
    """For this process, which holds the other end of every connection; servers inherit it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < MANY_FILES:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(MANY_FILES, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture
def chance() -> random.Random:
    """Printed, so that `DS_TEST_SEED` can bring the same choices back."""
    seed = int(os.environ.get("DS_TEST_SEED") or random.randrange(2**32))
    print(f"DS_TEST_SEED={seed}")
    return random.Random(seed)
