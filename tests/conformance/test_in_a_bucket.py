"""The official suite on the streams of a bucket: the same machinery under other names."""

import asyncio
from pathlib import Path

import pytest
from support.bucket_proxy import BucketProxy
from support.official_suite import run_suite
from support.server import RunningServer

TESTS = 332
SEALED_AT_ONCE = {"DS_TIERING__SEAL_AGE_SECS": "0"}


@pytest.mark.timeout(600)
async def test_every_core_test_of_the_official_suite_passes_in_a_bucket(tmp_path: Path) -> None:
    """Extensions §1.6: all stream operations of the base protocol apply there."""
    with RunningServer(workers=2, long_poll_timeout_secs=0.5, env=SEALED_AT_ONCE) as server:
        async with BucketProxy(server.url, "conformance") as proxy:
            outcome = await asyncio.to_thread(run_suite, proxy.url, tmp_path / "report.json")

    assert outcome.names("failed") == [], outcome.printed
    assert len(outcome.names("passed")) == TESTS


def test_every_path_comes_back_as_it_went() -> None:
    proxy = BucketProxy("http://server", "conformance")
    for path in ("/v1/stream/a", "/v1/stream/a/b~c/~1~0", "/v1/stream/%20/%E2%82%AC"):
        assert proxy.inside(path).count("/") == 3
        assert proxy.outside(proxy.inside(path)) == path
