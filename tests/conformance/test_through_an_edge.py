"""The official suite through Varnish, with and without a tail that is kept for a second."""

from pathlib import Path

import pytest
from support.edge_stack import embedded
from support.official_suite import Outcome, run_suite

TESTS = 332
EXPECTATIONS = {"DS_SERVER__LONG_POLL_TIMEOUT_SECS": "0.5"}

READS_ITS_OWN_WRITES = {
    "Basic Stream Operations should properly isolate recreated stream after delete",
    "Caching and ETag should return new ETag after data changes",
    "Fork - Recursive should compose sub-offsets across chained forks",
    "Property-Based Tests (fast-check) Byte-Exactness Property"
    " concurrent readers see consistent data during writes",
    "Property-Based Tests (fast-check) Byte-Exactness Property"
    " single byte values cover full range (0-255) with concurrent readers during write",
    "Property-Based Tests (fast-check) Operation Sequence Properties"
    " random operation sequences maintain stream invariants",
    "Property-Based Tests (fast-check) Concurrent Writer Stress Tests"
    " mixed readers and writers - readers see consistent state",
    "Property-Based Tests (fast-check) State Hash Verification"
    " content hash changes with each append",
}
"""They read a URL, append, and read the same URL within its second; docs/cdn.md lists them."""


def outcome(tail_cache_secs: int, folder: Path) -> Outcome:
    env = EXPECTATIONS | {"DS_HTTP__TAIL_CACHE_SECS": str(tail_cache_secs)}
    with embedded("varnish", env=env, chunk_bytes=4 * 2**20) as stack:
        return run_suite(stack.edges["varnish"].url, folder / "report.json")


@pytest.mark.timeout(600)
def test_the_official_suite_passes_through_an_edge(tmp_path: Path) -> None:
    found = outcome(0, tmp_path)
    assert found.names("failed") == [], found.printed
    assert len(found.names("passed")) == TESTS


@pytest.mark.timeout(600)
def test_a_tail_kept_for_a_second_shows_only_to_who_reads_its_own_writes(tmp_path: Path) -> None:
    found = outcome(1, tmp_path)
    assert set(found.names("failed")) <= READS_ITS_OWN_WRITES, found.printed
    assert len(found.names("passed", "failed")) == TESTS


def test_the_page_lists_what_differs() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cdn.md").read_text()
    assert [name for name in READS_ITS_OWN_WRITES if name not in page] == []
