"""A name that object storage does not take is refused when a stream is made, not when it is
sealed."""

from collections.abc import Mapping
from pathlib import Path

import aiohttp
import pytest
from support.client import TEXT, Stream
from support.server import RunningServer

from tiering.errors import Refused, Unavailable
from tiering.objects.counted import CountedStore
from tiering.objects.directory import DirectoryStore
from tiering.objects.probe import insist_on_names


class NarrowStore(DirectoryStore):
    """As stores that keep a segment of a key as the name of a file."""

    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        if any(len(segment) > 255 for segment in key.split("/")):
            raise Unavailable("Object storage answered KeyTooLongError.")
        return await super().put_if_absent(key, body, metadata)


async def test_a_store_that_takes_too_short_names_is_refused_with_what_to_set(
    tmp_path: Path,
) -> None:
    async with NarrowStore(tmp_path) as narrow:
        store = CountedStore(narrow)
        await insist_on_names(store, 255)
        clear = rf"^{narrow} cannot .* 256 bytes .*KeyTooLong.* limits\.max_name_bytes"
        with pytest.raises(Refused, match=clear):
            await insist_on_names(store, 256)
        assert [key async for key in store.list("")] == []


async def test_the_limit_counts_the_name_as_it_is_stored() -> None:
    with RunningServer(env={"DS_LIMITS__MAX_NAME_BYTES": "20"}) as server:
        async with aiohttp.ClientSession() as http:

            def stream(name: str) -> Stream:
                return Stream(http, f"{server.url}/v1/stream/{name}", TEXT)

            assert (await stream("x" * 20).create()).status == 201
            assert (await stream("a/" + "x" * 16).create()).status == 201
            for name in ("x" * 21, "a/" + "x" * 17):
                refused = await stream(name).create()
                assert (refused.status, refused["content-type"]) == (
                    400,
                    "application/problem+json",
                )
                assert "20 bytes" in refused.json()["detail"]
