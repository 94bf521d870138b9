"""Very many who wait for one thing, or leave at once, are not all served in one round."""

import asyncio
import itertools
from collections.abc import Callable

import pytest

from ds_server.live.departures import Departures
from ds_server.live.flights import Flights
from ds_server.live.gate import Gate
from ds_server.live.turns import CREDITS, DEPARTURE, TASK, Turns

MANY = 500


@pytest.fixture
async def turns() -> Turns:
    """Nothing else ever takes time, so each turn has the same credits."""
    return Turns(lambda: 0.0)


async def by_round(count: Callable[[], int], enough: int) -> list[int]:
    seen = [count()]
    while seen[-1] < enough:
        await asyncio.sleep(0)
        seen.append(count())
    return [after - before for before, after in itertools.pairwise(seen)]


async def test_those_at_a_gate_go_through_a_few_at_a_time(turns: Turns) -> None:
    gate, passed = Gate(turns), list[int]()

    async def go_through(number: int) -> None:
        await gate.wait()
        passed.append(number)

    async with asyncio.TaskGroup() as group:
        for number in range(MANY):
            group.create_task(go_through(number))
        await asyncio.sleep(0)
        gate.open()
        counts = await by_round(lambda: len(passed), MANY)
    assert passed == list(range(MANY))
    assert max(counts) <= CREDITS // TASK


async def test_who_gives_up_waiting_is_forgotten(turns: Turns) -> None:
    gate = Gate(turns)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(gate.wait(), 0.01)
    assert not gate.is_waiting


async def test_all_who_want_the_same_share_one_flight_and_leave_it_in_turns(turns: Turns) -> None:
    flights: Flights[str, int] = Flights(turns)
    flown, landed = list[str](), list[int]()

    async def fly() -> int:
        flown.append("once")
        await asyncio.sleep(0)
        return 7

    async def join() -> None:
        landed.append(await flights.do("there", fly))

    async with asyncio.TaskGroup() as group:
        passengers = [group.create_task(join()) for _ in range(MANY)]
        await asyncio.sleep(0)
        passengers[3].cancel()
        counts = await by_round(lambda: len(landed), MANY - 1)
    assert flown == ["once"]
    assert set(landed) == {7}
    assert max(counts) <= CREDITS // TASK


async def test_a_flight_that_fails_fails_for_everyone_and_the_next_one_is_new(turns: Turns) -> None:
    flights: Flights[str, int] = Flights(turns)

    async def crash() -> int:
        raise LookupError

    async def arrive() -> int:
        return 8

    together = [flights.do("there", crash) for _ in range(3)]
    failures = await asyncio.gather(*together, return_exceptions=True)
    assert [type(one) for one in failures] == [LookupError] * 3
    assert await flights.do("there", arrive) == 8


async def test_one_who_leaves_is_seen_off_at_once_and_very_many_in_turns(turns: Turns) -> None:
    departures, left = Departures(turns), list[int]()

    def fail() -> None:
        raise OSError("in a test")

    departures.add(lambda: left.append(0))
    assert left == [0]
    departures.add(fail)
    for number in range(1, MANY):
        departures.add(lambda number=number: left.append(number))
    counts = await by_round(lambda: len(left), MANY)
    assert left == list(range(MANY))
    assert max(counts) <= CREDITS // DEPARTURE
