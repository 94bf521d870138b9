"""Buckets (extensions §1): made by hand, listed in order, deleted when empty."""

import asyncio
import itertools
from collections.abc import Iterator
from urllib.parse import quote, unquote

import aiohttp
import pytest
from support.client import TEXT, Answer, Stream, assert_problem, eventually, unique_name
from support.extensions import Bucket, fork, new_bucket, path_of
from support.server import RunningServer

GOOD_IDS = ["abcd", "0000", "a_-9", "-_-_", "z" * 64]
BAD_IDS = [
    "",
    "abc",
    "z" * 65,
    "Abcd",
    "abc.",
    "ab%20cd",
    "abcd%0A",
    "ab%2Fcd",
    "%C3%A4%C3%B6%C3%BC%C3%9F",
    "%D9%A1%D9%A2%D9%A3%D9%A4",
    "%FF%FE%FD%FC",
]
ODD_STREAM_IDS = [
    ".",
    "a.b",
    "%2E",
    "a%20b",
    "%E2%82%AC",
    "%F0%9F%A6%A9",
    "a%0Ab",
    "{a}",
    "~",
    "%25",
]
BAD_STREAM_IDS = ["", "..", "a..b", "%2e%2e", "a%2Fb", "a%00b", "%00", "%FF", "a...", ".%2E"]


@pytest.fixture
async def bucket(server: RunningServer, http: aiohttp.ClientSession) -> Bucket:
    return await new_bucket(http, server.url)


@pytest.fixture
def missing(server: RunningServer, http: aiohttp.ClientSession) -> Bucket:
    return Bucket(http, server.url, unique_name("missing"))


@pytest.fixture(scope="module")
def forgetful_server() -> Iterator[RunningServer]:
    """Nothing sweeps there while a test looks."""
    with RunningServer(workers=2, env={"DS_TIERING__SWEEP_SECS": "3600"}) as running:
        yield running


async def create_all(bucket: Bucket, *ids: str) -> None:
    answers = await asyncio.gather(*(bucket.stream(one).create() for one in ids))
    assert [answer.status for answer in answers] == [201] * len(ids)


def ids(answer: Answer) -> list[str]:
    assert answer.status == 200, answer.body
    return [entry["stream_id"] for entry in answer.json()["streams"]]


@pytest.mark.parametrize("bucket_id", BAD_IDS)
@pytest.mark.parametrize("method", ["PUT", "GET", "DELETE"])
async def test_an_id_that_no_bucket_can_have(
    server: RunningServer, http: aiohttp.ClientSession, bucket_id: str, method: str
) -> None:
    """§1.1, §1.2, §1.3, §1.5: 400, whatever is asked."""
    assert_problem(await Bucket(http, server.url, bucket_id).ask(method), 400)


@pytest.mark.parametrize("bucket_id", BAD_IDS)
async def test_streams_of_a_bucket_that_cannot_be(
    server: RunningServer, http: aiohttp.ClientSession, bucket_id: str
) -> None:
    """§1.1, §1.4: so are its listing and its streams."""
    bucket = Bucket(http, server.url, bucket_id)
    assert_problem(await bucket.page(), 400)
    assert_problem(await bucket.stream("a").create(), 400)


@pytest.mark.parametrize("bucket_id", GOOD_IDS)
async def test_an_id_that_a_bucket_can_have(
    server: RunningServer, http: aiohttp.ClientSession, bucket_id: str
) -> None:
    """§1.1: four to 64 of a-z, 0-9, `_` and `-`."""
    bucket = Bucket(http, server.url, bucket_id)
    assert (await bucket.create()).status == 201
    assert (await bucket.describe()).json()["bucket_id"] == bucket_id
    assert (await bucket.delete()).status == 204


@pytest.mark.parametrize("stream_id", ODD_STREAM_IDS)
async def test_an_odd_stream_id_is_one_like_any_other(bucket: Bucket, stream_id: str) -> None:
    """§1.1: any UTF-8 string."""
    stream = bucket.stream(stream_id)
    assert (await stream.create(b"hello")).status == 201
    assert (await stream.read()).body == b"hello"
    assert ids(await bucket.page()) == [unquote(stream_id)]
    assert (await stream.delete()).status == 204
    assert ids(await bucket.page()) == []


@pytest.mark.parametrize("stream_id", BAD_STREAM_IDS)
@pytest.mark.parametrize("method", ["PUT", "POST", "GET", "HEAD", "DELETE"])
async def test_an_id_that_no_stream_can_have(bucket: Bucket, stream_id: str, method: str) -> None:
    """§1.1: no `/`, no NUL, no `..`, however it is written."""
    stream = Stream(bucket.http, f"{bucket.url}/{stream_id}", TEXT)
    body = b"x" if method in ("PUT", "POST") else None
    answer = await stream.ask(method, body, content_type=TEXT)
    assert answer.status == 400
    if method != "HEAD":
        assert_problem(answer, 400)


async def test_a_slash_leads_to_a_resource_of_the_stream_and_there_are_only_three(
    bucket: Bucket,
) -> None:
    """§1.1: an id has none, so what follows one is no stream."""
    await create_all(bucket, "a")
    for rest in ("a/b", "a/", "a/snapshots", "a/bootstrap/b", "a/snapshot/1/2"):
        assert_problem(await bucket.stream(rest).create(), 404)


async def test_bucket_and_stream_together_have_at_most_122_bytes(bucket: Bucket) -> None:
    """§1.1: counted in UTF-8, with the slash between them."""
    room = 122 - len(bucket.id) - 1
    for letter in ("a", "ä", "€", "🦩"):
        width = len(letter.encode())
        longest = letter * (room // width) + "a" * (room % width)
        assert (await bucket.stream(quote(longest)).create()).status == 201
        assert_problem(await bucket.stream(quote(longest + "a")).create(), 400)
        assert_problem(await bucket.stream(quote(longest + "a")).read(), 400)
    assert [len(one.encode()) for one in ids(await bucket.page())] == [room] * 4


@pytest.mark.parametrize("spelled", ["streams", "%73treams"])
async def test_the_place_of_the_listing_is_no_stream(bucket: Bucket, spelled: str) -> None:
    """§1.1: `streams` is reserved: no stream can be made there, and a listing can only be read."""
    place = Stream(bucket.http, f"{bucket.url}/{spelled}", TEXT)
    assert (await place.head()).status == 200
    refused = await place.create(b"x")
    assert_problem(refused, 400)
    assert "reserved" in refused.json()["detail"]
    for method in ("POST", "DELETE", "PATCH"):
        body = b"x" if method == "POST" else None
        answer = await place.ask(method, body, content_type=TEXT)
        assert_problem(answer, 405)
        assert answer["Allow"] == "GET,HEAD"
    assert (await place.ask("OPTIONS")).status == 204
    assert ids(await bucket.page()) == []


async def test_ids_that_look_like_it_are_free(bucket: Bucket) -> None:
    """§1.1"""
    await create_all(bucket, "Streams", "stream", "streams2", "bootstrap", "snapshot")
    assert len(ids(await bucket.page())) == 5


async def test_a_bucket_is_created_once(bucket: Bucket, missing: Bucket) -> None:
    """§1.2: 201, then 409."""
    made = await missing.create()
    assert made.status == 201
    assert made["Location"] == missing.url
    assert made.json() == {"bucket_id": missing.id, "streams": 0}
    assert_problem(await missing.create(), 409)
    answers = await asyncio.gather(
        *(Bucket(bucket.http, bucket.server, bucket.id + "-2").create() for _ in range(20))
    )
    assert sorted(answer.status for answer in answers) == [201] + [409] * 19


async def test_creating_a_stream_creates_no_bucket(missing: Bucket) -> None:
    """§1.2: buckets are made explicitly; §1.6: 404 where there is none."""
    stream = missing.stream()
    assert_problem(await stream.create(b"hello"), 404)
    assert_problem(await missing.describe(), 404)
    await missing.create()
    assert_problem(await stream.read(), 404)
    assert (await stream.create()).status == 201


async def test_a_fork_creates_no_bucket_either(bucket: Bucket, missing: Bucket) -> None:
    """§1.2, §1.6"""
    source = bucket.stream()
    await source.create(b"hello")
    assert_problem(await fork(source, missing.stream()), 404)
    assert_problem(await missing.describe(), 404)
    assert (await source.delete()).status == 204
    assert_problem(await source.read(), 404)


async def test_metadata_tell_how_many_streams_there_are(bucket: Bucket) -> None:
    """§1.3: 200 with `bucket_id` and `streams`."""
    counts = [(await bucket.describe()).json()["streams"]]
    for stream in (bucket.stream("a"), bucket.stream("a"), bucket.stream("b")):
        await stream.create()
        counts.append((await bucket.describe()).json()["streams"])
    await bucket.stream("a").delete()
    described = await bucket.describe()
    assert (counts, described.json()["streams"]) == ([0, 1, 1, 2], 1)
    assert described.json()["bucket_id"] == bucket.id
    assert described["Content-Type"] == "application/json"
    assert described["Cache-Control"] == "no-store"


async def test_a_refused_stream_is_not_counted(bucket: Bucket) -> None:
    """§1.3"""
    await create_all(bucket, "a")
    assert_problem(await bucket.stream("a").create(content_type="text/html"), 409)
    assert_problem(await fork(bucket.stream("none"), bucket.stream("b")), 404)
    assert (await bucket.describe()).json()["streams"] == 1
    assert (await bucket.stream("a").delete()).status == 204
    assert (await bucket.delete()).status == 204


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_a_bucket_that_is_not_there(missing: Bucket, method: str) -> None:
    """§1.3, §1.5: 404."""
    assert_problem(await missing.ask(method), 404)


@pytest.mark.parametrize("method", ["PUT", "POST", "GET", "HEAD", "DELETE"])
@pytest.mark.parametrize(
    "resource", ["", "/snapshot", "/snapshot/0000000000000001_0000000000000001", "/bootstrap"]
)
async def test_everything_in_a_missing_bucket_is_not_found(
    missing: Bucket, method: str, resource: str
) -> None:
    """§1.6: 404."""
    place = Stream(missing.http, f"{missing.url}/a{resource}", TEXT)
    body = b"x" if method in ("PUT", "POST") else None
    answer = await place.ask(method, body, content_type=TEXT)
    is_defined = (
        not resource
        or method == "GET"
        or method == "HEAD"
        or ("_" in resource and method != "POST")
    )
    assert answer.status == (404 if is_defined else 405)


@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_what_cannot_be_done_with_a_bucket(bucket: Bucket, method: str) -> None:
    """§1"""
    assert_problem(await bucket.ask(method), 405)


async def test_head_of_a_bucket_is_as_its_metadata_without_the_body(
    bucket: Bucket, missing: Bucket
) -> None:
    """§1.3"""
    answer = await bucket.ask("HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert (await missing.ask("HEAD")).status == 404


async def test_the_same_path_on_the_other_surface_is_another_stream(bucket: Bucket) -> None:
    """§1: a stream belongs to a bucket only under `/ds/`."""
    inside = bucket.stream("a")
    outside = Stream(bucket.http, f"{bucket.server}/v1/stream/{bucket.id}/a", TEXT)
    await inside.create(b"inside")
    assert_problem(await outside.read(), 404)
    await outside.create(b"outside")
    assert ((await inside.read()).body, (await outside.read()).body) == (b"inside", b"outside")
    assert ids(await bucket.page()) == ["a"]
    await outside.delete()
    assert (await inside.read()).body == b"inside"


@pytest.mark.parametrize("path", ["__ds/{}/a", "__ds", "__ds%2F{}%2Fa", "%5F_ds/{}/a"])
async def test_nobody_comes_into_a_bucket_from_the_other_surface(bucket: Bucket, path: str) -> None:
    """§1"""
    await create_all(bucket, "a")
    outside = Stream(bucket.http, f"{bucket.server}/v1/stream/{path.format(bucket.id)}", TEXT)
    assert_problem(await outside.read(), 400)
    assert_problem(await outside.create(), 400)


async def test_forks_go_from_surface_to_surface(bucket: Bucket) -> None:
    """§1.6: `Stream-Forked-From` names either."""
    inside = bucket.stream()
    outside = Stream(bucket.http, f"{bucket.server}/v1/stream/{unique_name()}", TEXT)
    await inside.create(b"one ")
    assert (await fork(inside, outside)).status == 201
    await outside.append(b"two ")
    again = bucket.stream("again")
    assert (await fork(outside, again)).status == 201
    assert (await again.read_to_the_tail())[-1].status == 200
    assert b"".join(a.body for a in await again.read_to_the_tail()) == b"one two "


@pytest.mark.parametrize("rest", ["/snapshot", "/bootstrap", "/", "/b"])
async def test_only_a_stream_can_be_forked(bucket: Bucket, rest: str) -> None:
    """§1.1: what follows a stream's id is no part of it."""
    source, made = bucket.stream("a"), bucket.stream("b")
    await source.create(b"hello")
    refused = await made.ask("PUT", stream_forked_from=path_of(source) + rest)
    assert_problem(refused, 400)


async def test_a_listing_describes_its_streams(bucket: Bucket) -> None:
    """§1.4"""
    await bucket.stream("open").create(b"12345")
    await bucket.stream("closed", "application/json").create(b"[1,2]", closed=True)
    answer = await bucket.page()
    assert answer["Cache-Control"] == "no-store"
    listed = answer.json()
    closed, still_open = listed.pop("streams")
    assert listed == {
        "bucket_id": bucket.id,
        "prefix": "",
        "stream_count": 2,
        "next_cursor": None,
        "has_more": False,
    }
    created = [entry.pop("created_at_ms") for entry in (closed, still_open)]
    written = [entry.pop("last_write_at_ms") for entry in (closed, still_open)]
    assert created == written
    assert created[0] > 1_700_000_000_000
    assert still_open == {
        "stream_id": "open",
        "status": "Open",
        "content_type": "text/plain",
        "tail_offset": 5,
    }
    assert closed == {
        "stream_id": "closed",
        "status": "Closed",
        "content_type": "application/json",
        "tail_offset": 4,
    }


async def test_a_listing_knows_the_last_write(bucket: Bucket) -> None:
    """§1.4"""
    stream = bucket.stream("a")
    await stream.create()
    await stream.append(b"hello")
    [entry] = (await bucket.page()).json()["streams"]
    assert entry["tail_offset"] == 5
    assert entry["last_write_at_ms"] >= entry["created_at_ms"]


async def test_a_listing_is_in_the_order_of_bytes(bucket: Bucket) -> None:
    """§1.4: sorted lexicographically; in UTF-8 that is the order of code points."""
    names = [
        "a",
        "a!",
        "a-",
        "aa",
        "b",
        "B",
        "Z",
        "~",
        "é",
        "€",
        "\U0001f9a9",
        "\uffee",
        "0",
        "10",
        "9",
        "a\x01",
    ]
    await create_all(bucket, *(quote(name) for name in names))
    assert ids(await bucket.page()) == sorted(names, key=str.encode)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
async def test_pages_follow_each_other_without_gap_or_repeat(bucket: Bucket, size: int) -> None:
    """§1.4: `after` is exclusive, `limit` the most that come."""
    names = [f"{letter}{number}" for letter in ("a", "é", "é~") for number in range(3)]
    await create_all(bucket, *map(quote, names))
    found, query = [], f"limit={size}"
    while True:
        page = (await bucket.page(query)).json()
        assert page["stream_count"] == len(page["streams"]) <= size
        found += [entry["stream_id"] for entry in page["streams"]]
        if not page["has_more"]:
            break
        assert page["next_cursor"] == found[-1]
        query = f"limit={size}&after={quote(page['next_cursor'])}"
    assert page["next_cursor"] is None
    assert found == sorted(names, key=str.encode)


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("prefix=user-", ["user-", "user-1", "user-2"]),
        ("prefix=user-1", ["user-1"]),
        ("prefix=user-1&after=user-1", []),
        ("prefix=user-&after=user-1", ["user-2"]),
        ("prefix=user-&after=a", ["user-", "user-1", "user-2"]),
        ("prefix=user-&after=z", []),
        ("prefix=%C3%A9", ["é", "éa"]),
        ("prefix=", ["user", "user-", "user-1", "user-2", "user.", "é", "éa"]),
        ("after=", ["user", "user-", "user-1", "user-2", "user.", "é", "éa"]),
        ("after=user", ["user-", "user-1", "user-2", "user.", "é", "éa"]),
        ("after=use", ["user", "user-", "user-1", "user-2", "user.", "é", "éa"]),
        ("after=user-11", ["user-2", "user.", "é", "éa"]),
        ("prefix=nobody", []),
        ("unheard-of=1", ["user", "user-", "user-1", "user-2", "user.", "é", "éa"]),
    ],
)
async def test_prefix_and_cursor(bucket: Bucket, query: str, wanted: list[str]) -> None:
    """§1.4: the cursor need not be a stream."""
    names = ["user", "user-", "user-1", "user-2", "user.", "é", "éa"]
    await create_all(bucket, *map(quote, names))
    answer = await bucket.page(query)
    assert ids(answer) == wanted
    assert answer.json()["prefix"] == unquote(query.partition("&")[0].partition("prefix=")[2])


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=1001",
        "limit=-1",
        "limit=",
        "limit=ten",
        "limit=1.5",
        "limit=99999",
        "limit=%D9%A1",
        "limit=1&limit=2",
        "prefix=a&prefix=b",
        "after=a&after=b",
        "prefix=%FF",
        "after=%FF",
        "prefix=a%00",
        "after=a%00",
    ],
)
async def test_a_question_that_makes_no_sense(bucket: Bucket, query: str) -> None:
    """§1.4: 400; the limit is in 1..=1000."""
    await create_all(bucket, "a")
    assert_problem(await bucket.page(query), 400)


async def test_a_listing_of_no_bucket(missing: Bucket) -> None:
    """§1.4: 404."""
    assert_problem(await missing.page(), 404)


async def test_a_page_has_a_thousand_unless_less_is_asked_for(bucket: Bucket) -> None:
    """§1.4: `limit` is 1000 by default."""
    names = [f"{number:04d}" for number in range(1001)]
    for start in range(0, len(names), 100):
        await create_all(bucket, *names[start : start + 100])
    page = await bucket.page()
    assert ids(page) == names[:1000]
    assert page.json()["next_cursor"] == "0999"
    assert ids(await bucket.page("limit=1000&after=0999")) == ["1000"]
    assert (await bucket.describe()).json()["streams"] == 1001


async def test_pages_are_stable_while_streams_come_and_go(bucket: Bucket) -> None:
    """§1.4: who was there all the time is seen exactly once."""
    staying = [f"{number:02d}-stays" for number in range(20)]
    await create_all(bucket, *staying)
    over = asyncio.Event()

    async def come_and_go(kind: str) -> None:
        for number in itertools.cycle(range(20)):
            stream = bucket.stream(f"{number:02d}-{kind}")
            assert (await stream.create()).status == 201
            assert (await stream.delete()).status == 204
            if over.is_set():
                return

    others = [asyncio.create_task(come_and_go(kind)) for kind in ("a", "z")]
    for _ in range(10):
        found, after = [], ""
        while page := ids(await bucket.page(f"limit=3&after={after}")):
            found += page
            after = page[-1]
        assert [one for one in found if one.endswith("stays")] == staying
        assert found == sorted(set(found))
    over.set()
    await asyncio.gather(*others)
    assert ids(await bucket.page()) == staying


async def test_a_stream_made_anew_is_listed_once(bucket: Bucket) -> None:
    """§1.4"""
    stream = bucket.stream("a")
    for _ in range(3):
        assert (await stream.create()).status == 201
        assert (await stream.create()).status == 200
        assert ids(await bucket.page()) == ["a"]
        assert (await stream.delete()).status == 204
    assert ids(await bucket.page()) == []


async def test_expired_streams_are_not_shown_and_do_not_keep_a_bucket(
    forgetful_server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§1.4, §1.5: for nobody else are they there either."""
    bucket = await new_bucket(http, forgetful_server.url)
    await create_all(bucket, "a", "c")
    assert (await bucket.stream("b").create(stream_ttl="0")).status == 201
    await eventually(bucket.page, lambda page: ids(page) == ["a", "c"])
    for name in ("a", "c"):
        assert (await bucket.stream(name).delete()).status == 204
    assert (await bucket.delete()).status == 204
    assert_problem(await bucket.describe(), 404)


async def test_expired_streams_are_not_counted(
    forgetful_server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§1.3: metadata and listing agree, swept or not."""
    bucket = await new_bucket(http, forgetful_server.url)
    await create_all(bucket, "a", "c")
    for name in ("b", "d"):
        assert (await bucket.stream(name).create(stream_ttl="0")).status == 201
    await eventually(bucket.page, lambda page: ids(page) == ["a", "c"])
    assert (await bucket.describe()).json()["streams"] == 2


async def test_expired_streams_of_a_large_bucket_are_counted_until_the_next_sweep(
    http: aiohttp.ClientSession,
) -> None:
    """§1.3: more than a page of them are not looked at one by one."""
    with RunningServer(workers=2, env={"DS_TIERING__SWEEP_SECS": "0.2"}) as server:
        bucket = await new_bucket(http, server.url)
        for start in range(0, 1100, 100):
            await create_all(bucket, *map(str, range(start, start + 100)))
        for name in ("gone", "too"):
            assert (await bucket.stream(name).create(stream_ttl="0")).status == 201
        await eventually(bucket.describe, lambda answer: answer.json()["streams"] == 1100)


async def test_an_expired_stream_can_be_made_anew(
    forgetful_server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§1.4"""
    bucket = await new_bucket(http, forgetful_server.url)
    await bucket.stream("a").create(stream_ttl="0")
    await eventually(bucket.page, lambda page: ids(page) == [])
    assert (await bucket.stream("a").create()).status == 201
    assert ids(await bucket.page()) == ["a"]
    assert (await bucket.describe()).json()["streams"] == 1
    assert_problem(await bucket.delete(), 409)


async def test_a_deleted_stream_that_forks_need_is_in_no_bucket(bucket: Bucket) -> None:
    """§1.4, §1.5: its bytes stay, its place is free."""
    source = bucket.stream("source")
    made = Stream(bucket.http, f"{bucket.server}/v1/stream/{unique_name()}", TEXT)
    await source.create(b"hello")
    assert (await fork(source, made)).status == 201
    assert (await source.delete()).status == 204
    assert ids(await bucket.page()) == []
    assert (await bucket.describe()).json()["streams"] == 0
    assert (await bucket.delete()).status == 204
    assert (await made.read()).body == b"hello"


async def test_a_bucket_with_streams_stays(bucket: Bucket) -> None:
    """§1.5: it must be empty before it is deleted."""
    stream = bucket.stream()
    await stream.create(b"hello")
    assert_problem(await bucket.delete(), 409)
    assert (await stream.read()).body == b"hello"
    assert (await stream.delete()).status == 204
    deleted = await bucket.delete()
    assert (deleted.status, deleted.body) == (204, b"")
    assert_problem(await bucket.delete(), 404)
    assert_problem(await stream.create(), 404)
    assert (await bucket.create()).status == 201


@pytest.mark.parametrize("forking", [False, True], ids=["create", "fork"])
async def test_no_stream_is_ever_in_a_missing_bucket(
    server: RunningServer, http: aiohttp.ClientSession, forking: bool
) -> None:
    """§1.5, §1.6: a bucket that is deleted while a stream is being created in it."""
    source = Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)
    await source.create(b"hello")
    outcomes = set()
    for _ in range(100):
        bucket = await new_bucket(http, server.url)
        stream = bucket.stream("a")
        making = fork(source, stream) if forking else stream.create(b"hello")
        made, deleted = await asyncio.gather(making, bucket.delete())
        is_there = (await bucket.describe()).status == 200
        outcomes.add((made.status, deleted.status, is_there, (await stream.head()).status))
    assert outcomes <= {(201, 409, True, 200), (404, 204, False, 404)}


async def test_deleting_a_bucket_and_creating_it_again_while_streams_are_made(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§1.5, §1.6: each stream that was made is in the bucket that is there now."""
    for _ in range(30):
        bucket = await new_bucket(http, server.url)
        made = asyncio.gather(*(bucket.stream(f"s{number}").create() for number in range(4)))
        await asyncio.gather(bucket.delete(), bucket.create())
        there = {f"s{n}" for n, answer in enumerate(await made) if answer.status == 201}
        listed = ids(page) if (page := await bucket.page()).status == 200 else []
        assert set(listed) == there
