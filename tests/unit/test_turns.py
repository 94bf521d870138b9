"""Very many followers are served a few at a time."""

import asyncio
import itertools
from collections.abc import Callable

from ds_server.live.turns import CREDITS, FRAME, MOST_CREDITS, TASK, Turns


class Queue:
    """A crowd of which each member costs the same."""

    def __init__(self, size: int, cost: int, served: list["Queue"]) -> None:
        self._left = size
        self._cost = cost
        self._served = served

    @property
    def is_waiting(self) -> bool:
        return self._left > 0

    def serve(self, credits: int) -> int:
        while self._left and credits > 0:
            self._left -= 1
            credits -= self._cost
            self._served.append(self)
        return credits


async def served_by_turn(
    *crowds: Queue, served: list[Queue], clock: Callable[[], float] = lambda: 0.0
) -> list[int]:
    """How many had been served each time the event loop came round."""
    turns = Turns(clock)
    for crowd in crowds:
        turns.add(crowd)
    seen = [0]
    while any(crowd.is_waiting for crowd in crowds):
        await asyncio.sleep(0)
        seen.append(len(served))
    return [after - before for before, after in itertools.pairwise(seen)]


async def test_no_turn_serves_more_than_its_credits_allow() -> None:
    served: list[Queue] = []
    counts = await served_by_turn(Queue(5000, FRAME, served), served=served)
    assert sum(counts) == 5000
    assert max(counts) <= CREDITS


async def test_whoever_comes_when_nobody_waits_is_served_at_once() -> None:
    served: list[Queue] = []
    Turns().add(Queue(2, FRAME, served))
    assert len(served) == 2


async def test_when_other_things_take_long_a_turn_is_longer_but_not_much() -> None:
    served: list[Queue] = []
    seconds = itertools.count()
    counts = await served_by_turn(
        Queue(5000, FRAME, served), served=served, clock=lambda: next(seconds)
    )
    assert sum(counts) == 5000
    assert max(counts) == MOST_CREDITS


async def test_those_who_cost_more_are_fewer_in_a_turn() -> None:
    served: list[Queue] = []
    counts = await served_by_turn(Queue(200, TASK, served), served=served)
    assert sum(counts) == 200
    assert max(counts) <= CREDITS // TASK


async def test_a_small_crowd_does_not_wait_for_a_large_one() -> None:
    served: list[Queue] = []
    large, small = Queue(10_000, FRAME, served), Queue(2, FRAME, served)
    await served_by_turn(large, small, served=served)
    assert small in served[: 2 * CREDITS]


async def test_very_many_crowds_share_the_turns() -> None:
    served: list[Queue] = []
    crowds = [Queue(2, FRAME, served) for _ in range(500)]
    counts = await served_by_turn(*crowds, served=served)
    assert sum(counts) == 1000
    assert max(counts) <= CREDITS + TASK
