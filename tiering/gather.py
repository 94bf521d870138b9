"""Much work of one kind, done some at a time."""

import asyncio
from collections.abc import Coroutine, Iterable
from typing import TypeVar

_AT_ONCE = 32

T = TypeVar("T")


async def gather(work: Iterable[Coroutine[None, None, T]]) -> list[T]:
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(task: Coroutine[None, None, T]) -> T:
        async with slots:
            return await task

    return await asyncio.gather(*(one(task) for task in work))
