"""A Redis for the tests of a module that ask for one."""

from collections.abc import Iterator

import pytest
from support.external_redis import IN_MEMORY, ExternalRedis


@pytest.fixture(scope="module")
def redis() -> Iterator[ExternalRedis]:
    with ExternalRedis(IN_MEMORY) as running:
        yield running
