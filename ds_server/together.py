"""Several jobs at once."""

import asyncio
from collections.abc import Coroutine
from typing import Any


async def together(*jobs: Coroutine[Any, Any, None]) -> None:
    """Runs the jobs; the first error ends the others and is raised as itself."""
    try:
        async with asyncio.TaskGroup() as group:
            for job in jobs:
                group.create_task(job)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
