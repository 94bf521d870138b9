"""Random histories of a few streams, played to the real server and to a plain list.

`DS_PROPERTY_EXAMPLES=1000 pytest tests/http/test_property.py` looks further, and elsewhere
each time; without it the same histories are played in every run.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from support.machine import DEEPEST_FORK, ServerAgainstList
from support.server import RunningServer
from support.wire import Wire

DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024

EXAMPLES = os.environ.get("DS_PROPERTY_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 40),
    stateful_step_count=40,
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def play(server: RunningServer, grid: int) -> None:
    deepest = 0

    class Counting(ServerAgainstList):
        def teardown(self) -> None:
            nonlocal deepest
            deepest = max(deepest, self.deepest)
            super().teardown()

    with Wire(server.url) as wire:
        run_state_machine_as_test(lambda: Counting(wire, grid), settings=SETTINGS)
    assert deepest == DEEPEST_FORK


@pytest.mark.timeout(600)
def test_the_server_agrees_with_a_plain_list(server: RunningServer) -> None:
    play(server, DEFAULT_CHUNK_BYTES)


@pytest.mark.timeout(600)
def test_the_server_agrees_with_a_plain_list_in_chunks_of_one_kibibyte(
    server_with_small_chunks: RunningServer,
) -> None:
    play(server_with_small_chunks, 1024)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("grid", [1024, 65536])
def test_the_server_agrees_with_a_plain_list_while_every_append_is_sealed_at_once(
    grid: int,
) -> None:
    env = {"DS_TIERING__SEAL_AGE_SECS": "0"}
    with RunningServer(workers=2, chunk_bytes=grid, env=env) as server:
        play(server, grid)
