"""What every test in which something breaks needs."""

import os
import random
from collections.abc import AsyncIterator

import aiohttp
import pytest
from support.producers import patient_session


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with patient_session() as session:
        yield session


@pytest.fixture
def chance() -> random.Random:
    """Printed, so that `DS_TEST_SEED` can bring the same choices back."""
    seed = int(os.environ.get("DS_TEST_SEED") or random.randrange(2**32))
    print(f"DS_TEST_SEED={seed}")
    return random.Random(seed)
