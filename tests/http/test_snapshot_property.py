"""Random histories of streams in a bucket, with snapshots and bootstraps, against a plain list:
what a client has who bootstraps and follows is what the whole history gives.

`DS_PROPERTY_EXAMPLES` as in `test_property.py`.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test
from support.server import RunningServer
from support.snapshot_rules import SnapshotsAgainstList
from support.wire import Wire

EXAMPLES = os.environ.get("DS_PROPERTY_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 15),
    stateful_step_count=40,
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
TIDY = {"DS_TIERING__DELETE_GRACE_SECS": "0", "DS_TIERING__SWEEP_SECS": "1"}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seal_age", ["0", "60"])
def test_bootstrap_and_live_reads_are_the_whole_history(seal_age: str) -> None:
    """Also while everything is sealed at once, and what is behind a snapshot removed at once."""
    env = TIDY | {"DS_TIERING__SEAL_AGE_SECS": seal_age}
    with (
        RunningServer(workers=2, chunk_bytes=1024, env=env) as server,
        Wire(server.url, root="/ds/") as wire,
    ):
        run_state_machine_as_test(lambda: SnapshotsAgainstList(wire, 1024), settings=SETTINGS)
