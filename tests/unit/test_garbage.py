"""What a full garbage collection looks at, when very much is alive."""

import asyncio
import gc

import pytest
from support.producers import until

from ds_server import garbage

MOST_OBJECTS = 40_000


class Node:
    def __init__(self) -> None:
        self.me: Node | None = None


async def test_no_collection_looks_at_all_that_is_alive() -> None:
    looked_at = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            looked_at.append(len(gc.get_objects(info["generation"])))

    before = [[Node()] for _ in range(200_000)]
    with garbage.sparing_the_old():
        gc.callbacks.append(note)
        alive = [[Node()] for _ in range(150_000)]
        gc.callbacks.remove(note)
        assert gc.get_freeze_count() > len(before) + len(alive)
    assert len(looked_at) > 100
    assert max(looked_at) < MOST_OBJECTS


async def test_what_was_set_aside_and_died_is_found_in_a_quiet_moment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(garbage, "_PERIOD_SECS", 0.01)
    monkeypatch.setattr(garbage, "_GROWTH", 1.0)
    async with garbage.sparing():
        await asyncio.sleep(0)
        rings = [Node() for _ in range(1000)]
        for ring in rings:
            ring.me = ring
        gc.collect()
        was_set_aside = gc.get_freeze_count()
        del ring, rings
        await until(lambda: gc.get_freeze_count() < was_set_aside - 500, "the rings to be found")
