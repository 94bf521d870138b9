"""Objects that are not as long as they were written: an edge never takes them for data."""

import aiohttp
import pytest
from support.client import JSON, TEXT, Stream, eventually
from support.edge import SECRET
from support.edge_stack import Stack, name_for

WAYS = [
    ("embedded_stack", "varnish"),
    ("embedded_stack", "nginx"),
    ("bucket_stack", "varnish"),
    ("bucket_stack", "nginx"),
    ("bucket_stack", "straight"),
]
DAMAGES = {
    "cut short": lambda body: body[:-100],
    "emptied": lambda body: b"",
    "removed": lambda body: None,
}


@pytest.mark.parametrize("kind", [JSON, TEXT])
@pytest.mark.parametrize("way", WAYS, ids=["-".join(way).replace("_stack", "") for way in WAYS])
async def test_a_damaged_object_is_an_error_that_names_it_until_it_is_mended(
    way: tuple[str, str], kind: str, request: pytest.FixtureRequest, http: aiohttp.ClientSession
) -> None:
    stack: Stack = request.getfixturevalue(way[0])
    name = name_for(way[1])
    await stack.written(http, name, kind)
    through = Stream(http, f"{stack.edges[way[1]].url}/v1/stream/{name}", kind)
    offsets = await chunk_offsets(Stream(http, f"{stack.server.url}/v1/stream/{name}", kind))
    for offset, (what, damage) in zip(offsets, DAMAGES.items(), strict=False):
        key = f"chunks/{name}/{offset}"
        with stack.objects.damaged(key, damage) as whole:
            for _ in range(2):
                answer = await through.read(offset)
                assert answer.status == 500, what
                assert answer.headers.getall("Cache-Control") == ["no-store"], what
                assert key in answer.json()["detail"]
        mended = await eventually(lambda: through.read(offset), lambda got: got.status == 200)  # noqa: B023
        assert mended.body == whole
        assert "immutable" in mended.headers["Cache-Control"]


@pytest.mark.parametrize("way", WAYS, ids=["-".join(way).replace("_stack", "") for way in WAYS])
async def test_of_an_object_that_has_become_longer_nobody_sees_more_than_was_written(
    way: tuple[str, str], request: pytest.FixtureRequest, http: aiohttp.ClientSession
) -> None:
    """The server finds what it wrote at the beginning of it, and sends that."""
    stack: Stack = request.getfixturevalue(way[0])
    name = name_for(way[1])
    await stack.written(http, name, TEXT)
    through = Stream(http, f"{stack.edges[way[1]].url}/v1/stream/{name}", TEXT)
    [offset, *_] = await chunk_offsets(Stream(http, f"{stack.server.url}/v1/stream/{name}", TEXT))
    with stack.objects.damaged(f"chunks/{name}/{offset}", lambda body: body + b"?") as whole:
        answer = await through.read(offset)
        assert (answer.status, answer.body) == (200, whole)
        assert len(answer.headers.getall("Cache-Control")) == 1


async def chunk_offsets(direct: Stream) -> list[str]:
    """Where chunks begin that the server has not read by itself; the first has no name yet."""
    offsets, answer = [], await direct.read(ds_edge_secret=SECRET)
    while not answer["Stream-Up-To-Date"]:
        offsets.append(answer.next_offset)
        answer = await direct.read(offsets[-1], ds_edge_secret=SECRET)
    return offsets
