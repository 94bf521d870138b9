"""What only a directory promises: survival of crashes and of full disks."""

import asyncio
import errno
import fcntl
import os
import resource
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tiering.errors import Corrupt, Refused, Unavailable
from tiering.objects.directory import DirectoryStore
from tiering.objects.paths import key_of, path_of
from tiering.objects.store import PIECE_BYTES
from tiering.objects.walk import walk

OURS = {"^lock", "^scratch"}

SEGMENTS = st.builds(
    lambda beginning, length, end: beginning * length + end,
    st.sampled_from("x-%"),
    st.sampled_from([1, 2, 238, 239, 240, 241, 479, 480, 481]),
    st.sampled_from(["", "-", "0", "~", "metadata"]),
)
KEYS = st.sets(st.lists(SEGMENTS, min_size=1, max_size=2).map("/".join), min_size=1).map(
    lambda keys: {key for key in keys if not any(other.startswith(f"{key}/") for other in keys)}
)
"""No key is the folder of another."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "objects"


@pytest.fixture
async def store(root: Path) -> AsyncIterator[DirectoryStore]:
    async with DirectoryStore(root) as store:
        yield store


@given(KEYS)
def test_a_path_means_one_key(keys: set[str]) -> None:
    assert {key_of(path_of(key)) for key in keys} == keys


@given(KEYS, st.data())
@settings(max_examples=50, deadline=None)
def test_keys_are_listed_in_byte_order(keys: set[str], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as root:
        for key in keys:
            path = Path(root, path_of(key))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        text = data.draw(st.sampled_from(sorted(keys)))
        prefix, after = text[: data.draw(st.integers(0, 5))], data.draw(st.sampled_from(["", text]))
        wanted = [key for key in sorted(keys) if key.startswith(prefix) and key > after]
        assert [info.key for info in walk(Path(root), prefix, after)] == wanted


def files_in(root: Path) -> set[str]:
    found = {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}
    return found - {"^lock"}


async def test_an_object_is_a_file_of_the_same_name_and_bytes(
    store: DirectoryStore, root: Path
) -> None:
    await store.put_if_absent("chunks/a/1", b"body", {"name": "value"})
    assert (root / "chunks/a/1").read_bytes() == b"body"


async def test_no_name_is_longer_than_a_file_system_takes(
    store: DirectoryStore, root: Path
) -> None:
    await store.put_if_absent(f"chunks/{'x' * 1000}", b"", {"name": "value"})
    names = [part for path in files_in(root) for part in path.split("/")]
    assert max(map(len, names)) <= 255


async def test_a_segment_that_continues_like_a_metadata_file(store: DirectoryStore) -> None:
    key = "x" * 240 + "metadata"
    await store.put_if_absent(key, b"body")
    assert [info.key async for info in store.list()] == [key]


async def test_a_listing_of_thousands(store: DirectoryStore, root: Path) -> None:
    keys = [f"parts/a/{number:016d}" for number in range(2500)]
    (root / "parts/a").mkdir(parents=True)
    for key in keys:
        (root / key).touch()
    assert [info.key async for info in store.list()] == keys
    await store.delete(keys)
    assert files_in(root) == set()


async def test_deleting_the_last_object_removes_its_folders(
    store: DirectoryStore, root: Path
) -> None:
    await store.put_if_absent("chunks/a/b/1", b"", {"name": "value"})
    await store.put_if_absent("chunks/b/1", b"")
    await store.delete(["chunks/a/b/1"])
    assert os.listdir(root / "chunks") == ["b"]
    await store.delete(["chunks/b/1"])
    assert set(os.listdir(root)) == OURS


async def test_file_folder_and_new_parents_are_on_disk_before_the_answer(
    store: DirectoryStore, root: Path, synced: set[Path]
) -> None:
    await store.put_if_absent("chunks/a/1", b"body")
    assert synced >= {root, root / "chunks", root / "chunks/a"}
    assert any(path.parent.name == "^scratch" for path in synced)


async def test_another_writers_object_is_on_disk_before_it_is_adopted(
    store: DirectoryStore, root: Path, synced: set[Path]
) -> None:
    (root / "chunks/a").mkdir(parents=True)
    (root / "chunks/a/1").write_bytes(b"body")
    assert not await store.put_if_absent("chunks/a/1", b"body")
    assert root / "chunks/a" in synced


@pytest.fixture
def synced(store: DirectoryStore, monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """The files and folders that were synced since."""
    paths = set()
    really_sync = os.fsync

    def sync(descriptor: int) -> None:
        really_sync(descriptor)
        paths.add(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", sync)
    return paths


async def test_what_a_crash_has_left_is_not_listed_and_goes_at_the_next_start(
    store: DirectoryStore, root: Path
) -> None:
    left = root / "^scratch" / "left"
    left.write_bytes(b"half a bo")
    assert [info async for info in store.list()] == []
    async with DirectoryStore(root):
        assert not left.exists()


async def test_what_another_process_is_writing_stays(store: DirectoryStore, root: Path) -> None:
    busy = root / "^scratch" / "busy"
    with busy.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        async with DirectoryStore(root):
            assert busy.exists()


async def test_a_write_that_is_cancelled_leaves_no_draft(store: DirectoryStore, root: Path) -> None:
    """Wherever it is by then: what a thread has begun goes on without who asked for it."""

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(10):
            yield bytes(PIECE_BYTES)

    for turns in range(30):
        writing = asyncio.create_task(store.put_pieces("folder/key", pieces()))
        for _ in range(turns):
            await asyncio.sleep(0)
        writing.cancel()
        await asyncio.wait({writing})
    assert list((root / "^scratch").iterdir()) == []


async def test_metadata_of_a_write_that_crashed_mean_nothing(
    store: DirectoryStore, root: Path
) -> None:
    await store.put_if_absent("a/1", b"old", {"name": "old"})
    (root / "a/1").unlink()
    assert [info async for info in store.list()] == []
    assert await store.head("a/1") is None
    assert await store.put_if_absent("a/1", b"new")
    info = await store.head("a/1")
    assert info is not None
    assert info.metadata == {}


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_a_body_that_does_not_fit_leaves_nothing(store: DirectoryStore, root: Path) -> None:
    with files_no_larger_than(100_000), pytest.raises(Unavailable):
        await store.put_if_absent("a/1", bytes(300_000), {"name": "value"})
    assert files_in(root) == set()
    assert await store.put_if_absent("a/1", bytes(300_000))


async def test_a_full_disk_leaves_nothing_and_the_old_object_alone(
    store: DirectoryStore, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("a/1", b"old")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(Unavailable, match="No space left"):
            await store.put("a/1", b"new")
        with pytest.raises(Unavailable, match="No space left"):
            await store.put_if_absent("a/2", b"new")
    assert files_in(root) == {"a/1"}
    assert await store.get("a/1") == b"old"


async def test_a_file_that_shrinks_under_a_reader_is_corrupt(
    store: DirectoryStore, root: Path
) -> None:
    await store.put("a/1", bytes(3 * PIECE_BYTES))
    stream = store.stream("a/1")
    assert await anext(stream)
    os.truncate(root / "a/1", PIECE_BYTES + 10)
    with pytest.raises(Corrupt):
        assert [piece async for piece in stream] == []


async def test_a_path_that_leads_nowhere_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^file:///[^\n]*mistyped[^\n]*$"):
        async with DirectoryStore(tmp_path / "mistyped" / "objects"):
            pass


async def test_a_file_is_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused):
        async with DirectoryStore(tmp_path / "file"):
            pass
