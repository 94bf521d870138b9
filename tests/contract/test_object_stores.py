"""What every object store promises; each kind of store is one subclass."""

import asyncio
import contextlib
import random
import tracemalloc
import uuid
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Iterable
from pathlib import Path
from typing import Any

import pytest
from support import object_servers
from support.object_servers import ObjectServer

from tiering.errors import Corrupt, Invalid, Refused, Unavailable
from tiering.objects.directory import DirectoryStore
from tiering.objects.s3 import S3Store
from tiering.objects.s3_upload import PART_BYTES
from tiering.objects.store import PIECE_BYTES, ObjectMissing, ObjectStore

MEBIBYTE = 1 << 20
TEN = b"0123456789"
PAGE = 4

ODD_KEYS = [
    "chunks/%E2%82%AC%20and%20%F0%9F%A6%A9/0000000000000001_0000000000000000",
    "chunks/a%2Fb/1",
    "chunks/a+b/1+2",
    "chunks/a=b/1=2",
    "chunks/a:b/1:2",
    "chunks/~a~/~",
    "chunks/(a),b;c!$'*@&/1",
    "chunks/%25/%2E%2E",
    "chunks/.../.hidden",
    "chunks/A/x",
    "chunks/a/x",
]
REFUSED_KEYS = ["", "/a", "a/", "a//b", ".", "..", "a/..", "../a", "a/./b", "a b", "a^b", "é", "\n"]
METADATA = {
    "content-type": "text/plain; charset=utf-8",
    "name": "Grüße, 🦩",
    "spaces": "  two  before, between and after  ",
    "percent": "100%25 %",
    "lines": "a\r\nb",
}


class ObjectStoreContract(ABC):
    """`plant` and `dig_up` go round the store, so that a test uses what it tests and no more."""

    longest_segment = 800

    @abstractmethod
    def another(self) -> ObjectStore:
        """A store on the same place, listing in pages of PAGE keys."""

    @abstractmethod
    def plant(self, key: str, body: bytes) -> None: ...

    @abstractmethod
    def dig_up(self, key: str) -> bytes | None: ...

    @abstractmethod
    def drafts(self) -> list[str]:
        """What was begun and is neither an object nor gone."""

    @pytest.fixture
    async def store(self, place: None) -> AsyncIterator[ObjectStore]:
        async with self.another() as store:
            yield store

    async def test_put_if_absent_writes_a_new_object(self, store: ObjectStore) -> None:
        assert await store.put_if_absent("parts/a/1", TEN)
        assert self.dig_up("parts/a/1") == TEN

    async def test_put_if_absent_leaves_an_old_object_alone(self, store: ObjectStore) -> None:
        self.plant("parts/a/1", TEN)
        assert not await store.put_if_absent("parts/a/1", b"other")
        assert self.dig_up("parts/a/1") == TEN

    async def test_one_of_twenty_writers_at_once_wins(self, store: ObjectStore) -> None:
        async with self.another() as rival:
            bodies = [f"{number} ".encode() * 1000 for number in range(20)]
            written = await asyncio.gather(
                *(
                    [store, rival][number % 2].put_if_absent("a/1", body, {"by": str(number)})
                    for number, body in enumerate(bodies)
                )
            )
        assert written.count(True) == 1
        assert self.dig_up("a/1") == bodies[written.index(True)]
        info = await store.head("a/1")
        assert info is not None
        assert info.metadata == {"by": str(written.index(True))}

    async def test_put_writes_and_replaces(self, store: ObjectStore) -> None:
        await store.put("manifest/a/1", b"a longer body at first")
        assert self.dig_up("manifest/a/1") == b"a longer body at first"
        await store.put("manifest/a/1", TEN)
        assert self.dig_up("manifest/a/1") == TEN

    async def test_a_reader_never_sees_half_a_replacement(self, store: ObjectStore) -> None:
        bodies = {bytes([number]) * 100_000 for number in range(8)}
        await store.put("a/1", min(bodies))
        writes = asyncio.gather(*(store.put("a/1", body) for body in bodies))
        while not writes.done():
            assert await store.get("a/1") in bodies
        await writes

    async def test_put_forgets_the_metadata_of_before(self, store: ObjectStore) -> None:
        await store.put_if_absent("a/1", TEN, {"name": "value"})
        await store.put("a/1", TEN)
        info = await store.head("a/1")
        assert info is not None
        assert info.metadata == {}

    @pytest.mark.parametrize(
        ("start", "end"),
        [
            (None, None),
            (0, None),
            (None, 4),
            (3, 7),
            (9, 10),
            (0, 10),
            (4, None),
            (10, None),
            (0, 0),
            (5, 5),
            (10, 10),
        ],
    )
    async def test_ranges(self, store: ObjectStore, start: int | None, end: int | None) -> None:
        self.plant("a/1", TEN)
        assert await store.get("a/1", start, end) == TEN[start:end]
        assert (
            b"".join([piece async for piece in store.stream("a/1", start, end)]) == TEN[start:end]
        )

    @pytest.mark.parametrize(("start", "end"), [(None, None), (0, None), (0, 0), (None, 0)])
    async def test_an_empty_object(
        self, store: ObjectStore, start: int | None, end: int | None
    ) -> None:
        self.plant("a/empty", b"")
        assert await store.get("a/empty", start, end) == b""
        assert [piece async for piece in store.stream("a/empty", start, end)] == []

    @pytest.mark.parametrize(("start", "end"), [(5, 11), (10, 11), (11, None), (11, 11), (20, 30)])
    async def test_an_object_shorter_than_the_range_is_corrupt(
        self, store: ObjectStore, start: int, end: int | None
    ) -> None:
        self.plant("a/1", TEN)
        with pytest.raises(Corrupt):
            await store.get("a/1", start, end)
        with pytest.raises(Corrupt):
            assert [piece async for piece in store.stream("a/1", start, end)] == []

    @pytest.mark.parametrize(("start", "end"), [(-1, None), (3, 2), (None, -1)])
    async def test_a_range_that_is_none(
        self, store: ObjectStore, start: int | None, end: int | None
    ) -> None:
        with pytest.raises(ValueError, match="no range"):
            await store.get("a/1", start, end)

    @pytest.mark.parametrize(("start", "end"), [(None, None), (2, 4), (4, 4)])
    async def test_what_is_not_there_is_missing(
        self, store: ObjectStore, start: int | None, end: int | None
    ) -> None:
        self.plant("a/1", TEN)
        for key in ("a/2", "a", "b/1"):
            with pytest.raises(ObjectMissing):
                await store.get(key, start, end)
            with pytest.raises(ObjectMissing):
                assert [piece async for piece in store.stream(key, start, end)] == []
            assert await store.head(key) is None

    async def test_a_large_object_comes_in_small_pieces(self, store: ObjectStore) -> None:
        body = random.Random(1).randbytes(8 * MEBIBYTE)
        assert await store.put_if_absent("chunks/a/1", body)
        assert await store.get("chunks/a/1") == body
        pieces = [piece async for piece in store.stream("chunks/a/1", 1, 7 * MEBIBYTE)]
        assert b"".join(pieces) == body[1 : 7 * MEBIBYTE]
        assert 0 < max(map(len, pieces)) <= PIECE_BYTES

    async def test_a_stream_can_be_left(self, store: ObjectStore) -> None:
        self.plant("a/1", bytes(4 * MEBIBYTE))
        for _ in range(40):
            async with contextlib.aclosing(store.stream("a/1")) as pieces:
                assert await anext(pieces)
        assert len(await store.get("a/1")) == 4 * MEBIBYTE

    async def test_head_tells_size_and_metadata(self, store: ObjectStore) -> None:
        await store.put_if_absent("a/1", TEN, METADATA)
        info = await store.head("a/1")
        assert info is not None
        assert (info.key, info.size, info.metadata) == ("a/1", 10, METADATA)

    async def test_head_without_metadata(self, store: ObjectStore) -> None:
        self.plant("a/1", TEN)
        info = await store.head("a/1")
        assert info is not None
        assert (info.key, info.size, info.metadata) == ("a/1", 10, {})

    @pytest.mark.parametrize(
        "metadata", [{"Name": "a"}, {"a b": "c"}, {"": "a"}, {"a": ""}, {"a": "b" * 2048}]
    )
    async def test_metadata_that_not_every_store_takes_are_invalid(
        self, store: ObjectStore, metadata: dict[str, str]
    ) -> None:
        with pytest.raises(Invalid):
            await store.put_if_absent("a/1", TEN, metadata)
        assert self.dig_up("a/1") is None

    async def test_a_listing_of_many_pages_is_complete_and_in_order(
        self, store: ObjectStore
    ) -> None:
        keys = [f"parts/a/{number:016d}" for number in range(5 * PAGE + 1)]
        for key in reversed(keys):
            self.plant(key, b"x" * int(key[-2:]))
        found = [info async for info in store.list("parts/a/")]
        assert [info.key for info in found] == keys
        assert [info.size for info in found] == list(range(len(keys)))

    @pytest.mark.parametrize("count", [0, 1, PAGE - 1, PAGE, PAGE + 1, 2 * PAGE])
    async def test_a_listing_of_about_a_page(self, store: ObjectStore, count: int) -> None:
        keys = [f"a/{number}" for number in range(count)]
        for key in keys:
            self.plant(key, b"")
        assert await keys_of(store.list("a/")) == keys

    async def test_a_listing_takes_keys_that_begin_with_the_prefix(
        self, store: ObjectStore
    ) -> None:
        for key in ("a/1", "a/12", "a/2", "ab/1", "b/1"):
            self.plant(key, b"")
        assert set(await keys_of(store.list())) == {"a/1", "a/12", "a/2", "ab/1", "b/1"}
        assert await keys_of(store.list("a/")) == ["a/1", "a/12", "a/2"]
        assert await keys_of(store.list("a/1")) == ["a/1", "a/12"]
        assert set(await keys_of(store.list("a"))) == {"a/1", "a/12", "a/2", "ab/1"}
        assert await keys_of(store.list("c")) == []
        assert await keys_of(store.list("a/1/")) == []

    async def test_a_listing_tells_when_an_object_was_replaced(self, store: ObjectStore) -> None:
        """Or nothing, where it cannot tell."""
        await store.put("a/1", b"one")
        await store.put("a/2", b"two")
        (first, second) = [info.tag async for info in store.list("a/")]
        await store.put("a/1", b"ONE")
        (replaced, same) = [info.tag async for info in store.list("a/")]
        assert replaced == "" or replaced != first
        assert same in ("", second) or not second

    async def test_a_listing_starts_after_a_key(self, store: ObjectStore) -> None:
        for key in ("a/1", "a/2", "a/4", "b/1"):
            self.plant(key, b"")
        assert await keys_of(store.list("a/", after="a/1")) == ["a/2", "a/4"]
        assert await keys_of(store.list("a/", after="a/3")) == ["a/4"]
        assert await keys_of(store.list("a/", after="a/4")) == []
        assert await keys_of(store.list("b/", after="a/1")) == ["b/1"]
        assert await keys_of(store.list("a/", after="b")) == []

    async def test_folders_stay_together_and_in_order_inside(self, store: ObjectStore) -> None:
        folders = ["a", "a-b", "a!", "a.b", "ab", "a%20", "a~", "A"]
        keys = {f"parts/{folder}/{number}" for folder in folders for number in range(3)}
        for key in keys:
            self.plant(key, b"")
        found = await keys_of(store.list("parts/"))
        met = list(dict.fromkeys(key.split("/")[1] for key in found))
        assert found == [f"parts/{folder}/{number}" for folder in met for number in range(3)]
        assert set(found) == keys

    async def test_a_listing_goes_on_after_any_of_its_keys(self, store: ObjectStore) -> None:
        for folder in ("a", "a-b", "ab"):
            for number in range(3):
                self.plant(f"parts/{folder}/{number}", b"")
        found = await keys_of(store.list("parts/"))
        for position, key in enumerate(found, start=1):
            assert await keys_of(store.list("parts/", after=key)) == found[position:]

    async def test_deleting(self, store: ObjectStore) -> None:
        for key in ("a/1", "a/2", "a/3", "b/1"):
            self.plant(key, b"")
        await store.delete(["a/1", "a/3", "b/1", "not/there"])
        assert [self.dig_up(key) for key in ("a/1", "a/2", "a/3", "b/1")] == [None, b"", None, None]
        assert await keys_of(store.list()) == ["a/2"]

    async def test_deleting_more_than_a_batch(self, store: ObjectStore) -> None:
        planted = ["a/0", "a/999", "a/1000", "a/2000"]
        for key in planted:
            self.plant(key, b"")
        await store.delete([f"a/{number}" for number in range(2001)])
        assert [self.dig_up(key) for key in planted] == [None] * 4

    async def test_deleting_nothing(self, store: ObjectStore) -> None:
        await store.delete([])

    async def test_a_deleted_object_can_be_written_again(self, store: ObjectStore) -> None:
        await store.put_if_absent("a/1", b"old", {"name": "old"})
        await store.delete(["a/1"])
        assert await store.put_if_absent("a/1", b"new")
        assert self.dig_up("a/1") == b"new"
        info = await store.head("a/1")
        assert info is not None
        assert info.metadata == {}

    async def test_an_odd_key_is_a_key_like_any_other(self, store: ObjectStore) -> None:
        for key in ODD_KEYS:
            await round_trip(store, key)

    async def test_keys_that_differ_little_are_different_objects(self, store: ObjectStore) -> None:
        for key in ODD_KEYS:
            assert await store.put_if_absent(key, key.encode())
        assert set(await keys_of(store.list("chunks/"))) == set(ODD_KEYS)
        for key in ODD_KEYS:
            assert await store.get(key) == key.encode()

    async def test_a_long_segment_is_a_segment_like_any_other(self, store: ObjectStore) -> None:
        for length in (239, 240, 241, 255, 256, 480, 800):
            segment = ("%E2%82%AC" * 100)[: min(length, self.longest_segment)]
            await round_trip(store, f"chunks/{segment}/0000000000000001_0000000000000000")

    async def test_long_segments_with_a_common_beginning(self, store: ObjectStore) -> None:
        longest = min(self.longest_segment, 490)
        lengths = [length for length in (239, 240, 241, 479, 480, 481) if length <= longest]
        keys = [f"a/{'x' * length}{end}/1" for length in lengths for end in ("", "-", "~")]
        for key in keys:
            assert await store.put_if_absent(key, key.encode())
        assert sorted(await keys_of(store.list("a/"))) == sorted(keys)
        for key in keys:
            assert await store.get(key) == key.encode()
            assert await keys_of(store.list(key)) == [key]

    async def test_put_pieces_writes_and_replaces(self, store: ObjectStore) -> None:
        await store.put_if_absent("snapshots/a/1", b"before", {"name": "value"})
        for body in ([b"a longer ", b"", b"body"], [TEN], [b""], []):
            await store.put_pieces("snapshots/a/1", each(body))
            assert self.dig_up("snapshots/a/1") == b"".join(body)
        info = await store.head("snapshots/a/1")
        assert info is not None
        assert (info.size, info.metadata) == (0, {})

    @pytest.mark.parametrize(
        "size",
        [PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 2 * PART_BYTES, 2 * PART_BYTES + 12_345],
    )
    async def test_put_pieces_of_more_than_one_part(self, store: ObjectStore, size: int) -> None:
        body = random.Random(size).randbytes(size)
        await store.put_pieces("a/1", cut(body, 700_001))
        assert self.dig_up("a/1") == body
        assert await store.get("a/1", size - 10, size) == body[-10:]
        assert await keys_of(store.list()) == ["a/1"]

    async def test_one_large_piece_is_as_good_as_many(self, store: ObjectStore) -> None:
        body = bytes(2 * PART_BYTES + 1)
        await store.put_pieces("a/1", each([body]))
        assert self.dig_up("a/1") == body

    @pytest.mark.parametrize("size", [0, 1000, 2 * PART_BYTES + 1000])
    @pytest.mark.parametrize("known", [None, TEN], ids=["new", "replacement"])
    async def test_pieces_that_break_off_leave_nothing(
        self, store: ObjectStore, size: int, known: bytes | None
    ) -> None:
        if known is not None:
            self.plant("a/1", known)
        with pytest.raises(BrokenOff):
            await store.put_pieces("a/1", cut(bytes(size), MEBIBYTE, breaks_off=True))
        assert self.dig_up("a/1") == known
        assert await keys_of(store.list()) == (["a/1"] if known else [])
        assert self.drafts() == []

    async def test_pieces_whose_writer_is_cancelled_leave_nothing(self, store: ObjectStore) -> None:
        sent = asyncio.Event()

        async def endless() -> AsyncIterator[bytes]:
            yield bytes(PART_BYTES + 1)
            sent.set()
            await asyncio.Event().wait()

        writing = asyncio.create_task(store.put_pieces("a/1", endless()))
        await sent.wait()
        assert self.dig_up("a/1") is None
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert await keys_of(store.list()) == []
        assert self.drafts() == []

    async def test_an_object_is_seen_when_all_its_pieces_have_come(
        self, store: ObjectStore
    ) -> None:
        self.plant("a/1", TEN)

        async def watched() -> AsyncIterator[bytes]:
            for _ in range(3):
                yield bytes(PART_BYTES)
                assert await store.get("a/1") == TEN

        await store.put_pieces("a/1", watched())
        assert self.dig_up("a/1") == bytes(3 * PART_BYTES)

    async def test_pieces_written_at_the_same_time_are_not_mixed(self, store: ObjectStore) -> None:
        bodies = [bytes([number]) * (PART_BYTES + 1) for number in range(3)]
        await asyncio.gather(*(store.put_pieces("a/1", cut(body, MEBIBYTE)) for body in bodies))
        assert self.dig_up("a/1") in bodies

    async def test_a_key_that_not_every_store_takes_is_invalid(self, store: ObjectStore) -> None:
        for key in [*REFUSED_KEYS, "a/" * 512 + "b"]:
            calls: list[Awaitable[object]] = [store.get(key), anext(store.stream(key))]
            calls += [store.put_if_absent(key, b""), store.put(key, b"")]
            calls += [store.put_pieces(key, each([]))]
            calls += [store.head(key), store.delete(["a/1", key])]
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert [type(outcome) for outcome in outcomes] == [Invalid] * len(calls), key

    async def test_a_good_store_passes_the_check_and_keeps_nothing_of_it(
        self, store: ObjectStore
    ) -> None:
        await store.check()
        assert await keys_of(store.list()) == []


async def keys_of(infos: AsyncIterator[Any]) -> list[str]:
    return [info.key async for info in infos]


class BrokenOff(Exception):
    """What a source of pieces raises half-way."""


async def each(pieces: Iterable[bytes]) -> AsyncIterator[bytes]:
    for piece in pieces:
        yield piece


async def cut(body: bytes, size: int, *, breaks_off: bool = False) -> AsyncIterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]
    if breaks_off:
        raise BrokenOff


async def round_trip(store: ObjectStore, key: str) -> None:
    assert await store.put_if_absent(key, TEN, {"name": "value"})
    assert not await store.put_if_absent(key, TEN)
    assert await store.get(key, 2, 5) == b"234"
    info = await store.head(key)
    assert info is not None
    assert (info.key, info.size, info.metadata) == (key, 10, {"name": "value"})
    assert await keys_of(store.list(key)) == [key]
    assert await keys_of(store.list(key.rpartition("/")[0] + "/")) == [key]
    assert await keys_of(store.list(key, after=key)) == []
    await store.delete([key])
    assert await store.head(key) is None


class FoldersInByteOrder(ObjectStoreContract):
    async def test_folders_come_in_byte_order_too(self, store: ObjectStore) -> None:
        long = "x" * 240
        folders = ["a", "a-b", "a!", "a.b", "ab", "a%20", "a~", "A"]
        folders += [long, f"{long}-", f"{long}~", long[:-1], f"{long[:-1]}-", f"{long}x"]
        keys = [f"{folder}/{number}" for folder in folders for number in range(2)]
        keys += ["a+", "a0", f"{long}+", f"{long}0", f"{long[:-1]}+", f"{long[:-1]}0"]
        for key in keys:
            await store.put_if_absent(key, b"")
        assert await keys_of(store.list()) == sorted(keys)
        for key in keys[::5]:
            later = [other for other in sorted(keys) if other > key]
            assert await keys_of(store.list(after=key)) == later


class OutOfThisProcess(ObjectStoreContract):
    async def test_of_many_pieces_few_are_in_memory(self, store: ObjectStore) -> None:
        tracemalloc.start()
        try:
            await store.put_pieces("a/1", each(bytes(MEBIBYTE) for _ in range(100)))
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        info = await store.head("a/1")
        assert info is not None
        assert info.size == 100 * MEBIBYTE
        assert most < 8 * PART_BYTES


class S3Contract(ObjectStoreContract):
    @pytest.fixture
    def place(self, server: ObjectServer) -> None:
        self.host = server
        self.client = server.client
        self.prefix = f"tests/{uuid.uuid4().hex}"

    def another(self, **different: Any) -> S3Store:
        known: dict[str, Any] = {
            "bucket": self.host.bucket,
            "endpoint": self.host.endpoint,
            "session": self.host.session,
        }
        return S3Store(prefix=self.prefix, page_keys=PAGE, **(known | different))

    def plant(self, key: str, body: bytes) -> None:
        self.client.put_object(Bucket=self.host.bucket, Key=f"{self.prefix}/{key}", Body=body)

    def dig_up(self, key: str) -> bytes | None:
        name = f"{self.prefix}/{key}"
        try:
            found = self.client.get_object(Bucket=self.host.bucket, Key=name)
        except self.client.exceptions.NoSuchKey:
            return None
        body: bytes = found["Body"].read()
        return body

    def drafts(self) -> list[str]:
        begun = self.client.list_multipart_uploads(Bucket=self.host.bucket, Prefix=self.prefix)
        return [upload["Key"] for upload in begun.get("Uploads", [])]

    async def test_a_wrong_bucket_is_refused_in_one_line(self, store: ObjectStore) -> None:
        async with self.another(bucket="no-such-bucket") as lost:
            with pytest.raises(Refused, match=r"^s3://no-such-bucket/.*NoSuchBucket[^\n]*$"):
                await lost.check()

    async def test_a_missing_bucket_is_not_a_missing_object(self, store: ObjectStore) -> None:
        async with self.another(bucket="no-such-bucket") as lost:
            with pytest.raises(Unavailable):
                await lost.get("a/1")
            with pytest.raises(Unavailable):
                await lost.head("a/1")
            with pytest.raises(Unavailable):
                await lost.get("a/1", 3, 3)
            with pytest.raises(Unavailable):
                await keys_of(lost.list())

    async def test_without_a_prefix(self, store: ObjectStore) -> None:
        self.plant("a/1", TEN)
        bucket, endpoint, session = self.host.bucket, self.host.endpoint, self.host.session
        async with S3Store(bucket, endpoint=endpoint, session=session) as whole:
            assert await whole.get(f"{self.prefix}/a/1") == TEN
            assert await keys_of(whole.list(f"{self.prefix}/")) == [f"{self.prefix}/a/1"]


class TestDirectory(FoldersInByteOrder, OutOfThisProcess):
    @pytest.fixture
    def place(self, tmp_path: Path) -> None:
        self.root = tmp_path / "objects"

    def another(self) -> DirectoryStore:
        return DirectoryStore(self.root, page_keys=PAGE)

    def plant(self, key: str, body: bytes) -> None:
        path = self.root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(body)

    def dig_up(self, key: str) -> bytes | None:
        path = self.root / key
        return path.read_bytes() if path.exists() else None

    def drafts(self) -> list[str]:
        return [path.name for path in (self.root / "^scratch").iterdir()]


class TestMoto(S3Contract, FoldersInByteOrder):
    @pytest.fixture
    def server(self, moto: ObjectServer) -> ObjectServer:
        return moto


class TestSeaweedFS(S3Contract, OutOfThisProcess):
    @pytest.fixture
    def server(self, seaweedfs: ObjectServer) -> ObjectServer:
        return seaweedfs

    @pytest.mark.parametrize(
        ("variable", "code"),
        [
            ("AWS_ACCESS_KEY_ID", "InvalidAccessKeyId"),
            ("AWS_SECRET_ACCESS_KEY", "SignatureDoesNotMatch"),
        ],
    )
    async def test_wrong_credentials_are_refused_in_one_line(
        self, place: None, monkeypatch: pytest.MonkeyPatch, variable: str, code: str
    ) -> None:
        for name, value in {**self.host.environment, variable: "wrong"}.items():
            monkeypatch.setenv(name, value)
        async with self.another(session=None) as store:
            with pytest.raises(Refused, match=rf"^s3://ds-test/.*{code}[^\n]*$"):
                await store.check()


if object_servers.another():

    class TestAnotherServer(S3Contract, OutOfThisProcess):
        """MinIO keeps a segment as a file's name."""

        longest_segment = 255

        @pytest.fixture
        def server(self, another_server: ObjectServer) -> ObjectServer:
            return another_server
