"""Random histories through losses of Redis: the model agrees with every sealed byte."""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from support.recovering_machine import RecoveringServerAgainstList
from support.recovering_snapshots import RecoveringSnapshotsAgainstList
from support.repairs import NEVER
from support.server import RunningServer
from support.wire import Wire

EXAMPLES = os.environ.get("DS_PROPERTY_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 4),
    stateful_step_count=40,
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("grid", [1024])
def test_the_server_agrees_with_a_plain_list_through_losses_of_redis(grid: int) -> None:
    with RunningServer(chunk_bytes=grid, env=NEVER) as server, Wire(server.url) as wire:
        run_state_machine_as_test(
            lambda: RecoveringServerAgainstList(server, wire, grid), settings=SETTINGS
        )


@pytest.mark.timeout(600)
def test_buckets_and_snapshots_agree_with_a_plain_list_through_losses_of_redis() -> None:
    with (
        RunningServer(chunk_bytes=1024, env=NEVER) as server,
        Wire(server.url, root="/ds/") as wire,
    ):
        run_state_machine_as_test(
            lambda: RecoveringSnapshotsAgainstList(server, wire, 1024),
            settings=settings(SETTINGS, max_examples=int(EXAMPLES or 2)),
        )
