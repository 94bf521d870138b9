"""What executors do for a compaction. They need the bucket and nothing else."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from spark.options import Bucket
from tiering.cold.merge import Merged, Task, merge
from tiering.errors import Corrupt, Refused, StreamError
from tiering.objects.store import ObjectStore

_REQUEST_BYTES = 64 * 1024
"""What a request costs, in bytes that could have been read instead."""


@dataclass(frozen=True, slots=True)
class Result:
    """`number` tells which task it was; `reason` says why it was not done."""

    number: int
    outcome: Literal["merged", "damaged", "unavailable"]
    merged: Merged | None = None
    reason: str = ""


Numbered = tuple[int, Task]


def cost(task: Task) -> int:
    return 2 * task.size + 2 * (len(task.old) + 1) * _REQUEST_BYTES


def shares(tasks: Sequence[Task], count: int) -> list[list[Numbered]]:
    """About the same work in each: the largest goes to who has least."""
    found: list[list[Numbered]] = [[] for _ in range(min(count, len(tasks)))]
    loads = [0] * len(found)
    for number, task in sorted(enumerate(tasks), key=lambda one: -cost(one[1])):
        least = loads.index(min(loads))
        found[least].append((number, task))
        loads[least] += cost(task)
    return found


def merge_all(bucket: Bucket, tasks: Iterable[Numbered]) -> list[Result]:
    return asyncio.run(_merge_all(bucket, tasks))


async def _merge_all(bucket: Bucket, tasks: Iterable[Numbered]) -> list[Result]:
    try:
        async with bucket.open(read_only=False) as store:
            return [await _merge(store, number, task) for number, task in tasks]
    except Refused as error:
        return [Result(number, "unavailable", reason=str(error)) for number, _ in tasks]


async def _merge(store: ObjectStore, number: int, task: Task) -> Result:
    """What one task finds damaged does not concern the next one."""
    try:
        return Result(number, "merged", await merge(store, task))
    except Corrupt as error:
        return Result(number, "damaged", reason=str(error))
    except StreamError as error:
        return Result(number, "unavailable", reason=str(error))
