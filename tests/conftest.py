"""No test disappears quietly: a skip that does not come from support.needs is a failure."""

from collections.abc import Generator

import pytest
from support.needs import Lacking


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
