"""No test disappears quietly: a skip that does not come from support.needs is a failure. And who
runs where: each module on one worker, and all that share the one Spark on one."""

from collections.abc import Generator
from pathlib import PurePosixPath

import pytest
from support.needs import Lacking
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/spark_jobs"
"""Whoever lies in a folder below has processes of its own, or needs no Spark."""
LONG = (f"{SPARK}/test_under_fire.py", f"{SPARK}/apart/test_streaming_killed.py")


def shares_spark(nodeid: str) -> bool:
    return str(PurePosixPath(nodeid.partition("::")[0]).parent) == SPARK


class OneSpark(LoadScopeScheduling):
    """`--dist=loadscope` with one scope for all that share Spark."""

    def _split_scope(self, nodeid: str) -> str:
        return SPARK if shares_spark(nodeid) else super()._split_scope(nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> OneSpark | None:
    return OneSpark(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest row begins first, and beside it the longest test, so that neither is the last.
    The row begins with what lasts a minute however much else there is to do."""
    items.sort(key=lambda item: (not shares_spark(item.nodeid), not item.nodeid.startswith(LONG)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not _is_allowed(call):
        report.outcome = "failed"
        report.longrepr = f"{item.nodeid} skips without support.needs: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    call: pytest.CallInfo[None] | None = getattr(report, "call", None)
    if report.skipped and not (call and _is_allowed(call)):
        report.outcome = "failed"
        report.longrepr = f"{collector.nodeid} skips without support.needs: {report.longrepr}"
    return report


def _is_allowed(call: pytest.CallInfo[None]) -> bool:
    return call.excinfo is not None and isinstance(call.excinfo.value, Lacking)
