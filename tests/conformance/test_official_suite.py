"""The official conformance suite, every group except subscriptions."""

from pathlib import Path

import pytest
from support.official_suite import run_suite
from support.server import RunningServer

TESTS = 332
NOT_YET = ("Reserved subscription APIs",)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seal_age_secs", ["60", "0"])
@pytest.mark.parametrize("workers", [1, 2])
def test_every_core_test_of_the_official_suite_passes(
    workers: int, seal_age_secs: str, tmp_path: Path
) -> None:
    env = {"DS_TIERING__SEAL_AGE_SECS": seal_age_secs}
    with RunningServer(workers=workers, long_poll_timeout_secs=0.5, env=env) as server:
        outcome = run_suite(server.url, tmp_path / "report.json")

    assert outcome.names("failed") == [], outcome.printed
    left_out = outcome.names("skipped", "pending", "todo", "disabled")
    assert [name for name in left_out if not name.startswith(NOT_YET)] == []
    assert len(outcome.names("passed")) == TESTS
