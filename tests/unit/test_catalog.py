"""A bucket read without Redis: which pieces hold a stream, and which of them a query needs."""

import asyncio
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructField, StructType
from support.cellar import Cellar, manifest, piece

from spark import cli
from spark.planning import Planned, partitions
from spark.source import StreamsReader
from tiering.cold.catalog import Catalog
from tiering.cold.cover import Slice, cover, limits_of
from tiering.cold.keys import manifest_key
from tiering.errors import Corrupt, Gone, Invalid, Refused, Unavailable
from tiering.objects.counted import CountedStore
from tiering.objects.open import open_store
from tiering.objects.store import ObjectStore
from tiering.offset import Offset
from tiering.registry import REGISTRY
from tiering.stream import Ancestor, heritage


def spans(slices: list[Slice]) -> list[tuple[int, int, int]]:
    return [(one.piece.log, one.start, one.end) for one in slices]


def test_a_chunk_stands_for_the_parts_it_was_merged_from() -> None:
    pieces = [piece(0, 5), piece(5, 10), piece(0, 10, kind="chunk"), piece(10, 12)]
    found = cover(pieces, {("s", 1): None}, 0)
    assert spans(found) == [(1, 0, 10), (1, 10, 12)]
    assert found[0].piece.kind == "chunk"


def test_what_is_retained_may_begin_inside_a_piece() -> None:
    assert spans(cover([piece(0, 10), piece(10, 20)], {("s", 1): None}, 4)) == [
        (1, 4, 10),
        (1, 10, 20),
    ]


def test_a_log_counts_up_to_its_border_and_its_successor_may_begin_before() -> None:
    """A stream that changes its log at its tail seals what it had there under the new one."""
    pieces = [piece(0, 10), piece(10, 30), piece(8, 20, log=2)]
    assert spans(cover(pieces, {("s", 1): 15, ("s", 2): None}, 0)) == [
        (1, 0, 10),
        (2, 10, 20),
    ]


def test_a_stranger_of_the_same_name_is_left_out() -> None:
    assert cover([piece(0, 10, log=9)], {("s", 1): None}, 0) == []


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9))), st.integers(0, 30))
def test_the_cover_goes_as_far_as_there_is_anything(
    found: list[tuple[int, int]], start: int
) -> None:
    pieces = [piece(begin, begin + length) for begin, length in found]
    path = cover(pieces, {("s", 1): None}, start)
    position = start
    for one in path:
        assert one.start == position < one.end
        assert one.piece.start <= one.start
        assert one.end <= one.piece.end
        position = one.end
    assert not any(one.start <= position < one.end for one in pieces)


def test_a_fork_reads_through_the_logs_its_source_has_now() -> None:
    source = manifest("a", 3, ancestors=(Ancestor(1, 50, "recovery"),))
    fork = manifest("b", 2, ancestors=tuple(heritage("a", 1, (), 20)))
    assert limits_of(fork, {"a": source}) == {("a", 1): 20, ("a", 3): 20, ("b", 2): None}
    assert limits_of(fork, {}) == {("a", 1): 20, ("b", 2): None}


@pytest.fixture
def cellar(tmp_path: Path) -> Cellar:
    return Cellar(tmp_path / "objects")


def planned(found: list[Planned]) -> dict[str, list[tuple[int, int, int]]]:
    return {one.stream.name: spans(list(one.slices)) for one in found}


TEN = [piece(start, start + 10, kind="chunk") for start in range(0, 100, 10)]


def test_planning_reads_manifests_and_nothing_else(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    found, requests = cellar.plan()
    assert planned(found) == {"s": [(1, start, start + 10) for start in range(0, 100, 10)]}
    assert requests == {"get": 2, "list": 3}


def test_offsets_leave_out_whole_pieces_without_a_look_at_them(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    bounds = {"from": str(Offset(1, 25)), "until": str(Offset(1, 41))}
    found, requests = cellar.plan(**bounds)
    assert planned(found) == {"s": [(1, 25, 30), (1, 30, 40), (1, 40, 41)]}
    assert requests == {"get": 2, "list": 3}
    assert planned(cellar.plan(**{"from": "-1", "until": str(Offset(1, 10))})[0]) == {
        "s": [(1, 0, 10)]
    }


def test_a_time_is_looked_for_in_few_indexes(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    since = datetime.fromtimestamp(75, UTC).isoformat()
    found, requests = cellar.plan(since=since)
    assert planned(found) == {"s": [(1, start, start + 10) for start in (70, 80, 90)]}
    assert requests["get"] <= 2 + 4
    assert planned(cellar.plan(since="2026-01-01")[0]) == {"s": []}


class Recorded(CountedStore):
    """Notes what is fetched."""

    def __init__(self, store: ObjectStore, keys: list[str]) -> None:
        super().__init__(store)
        self._entered = store
        self._keys = keys

    async def __aenter__(self) -> Self:
        await self._entered.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self._entered.__aexit__(*reason)

    async def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        self._keys.append(key)
        return await super().get(key, start, end)


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    keys: list[str] = []

    def recorded(url: str, **more: Any) -> Recorded:
        return Recorded(open_store(url, **more), keys)

    monkeypatch.setattr("spark.options.open_store", recorded)
    return keys


def reader_of(cellar: Cellar, **given: str) -> StreamsReader:
    columns = StructType([StructField("position", LongType())])
    return StreamsReader(cellar.options(**given), columns)


def test_pieces_that_are_left_out_are_not_touched(cellar: Cellar, fetched: list[str]) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    reader = reader_of(cellar, **{"from": str(Offset(1, 25)), "until": str(Offset(1, 41))})
    found = [batch for one in reader.partitions() for batch in reader.read(one)]
    positions = [row["position"] for batch in found for row in batch.to_pylist()]
    assert positions == list(range(25, 41))
    touched = {key for key in fetched if "chunks/" in key}
    assert touched == {name for one in TEN[2:5] for name in (one.key, one.index_key)}


def test_a_time_gives_the_rows_of_that_time_and_later(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    reader = reader_of(cellar, since=datetime.fromtimestamp(75, UTC).isoformat())
    found = [batch for one in reader.partitions() for batch in reader.read(one)]
    positions = [row["position"] for batch in found for row in batch.to_pylist()]
    assert positions == list(range(74, 100))


def test_who_leaves_early_leaves_nothing_behind(cellar: Cellar) -> None:
    """A query with a limit takes one batch and goes."""
    large = [piece(start, start + 5_000_000, kind="chunk") for start in (0, 5_000_000, 10_000_000)]
    cellar.lay(manifest(sealed=15_000_000), pieces=large, message_bytes=1_000_000)
    before = threading.active_count()
    reader = reader_of(cellar)
    batches = reader.read(reader.partitions()[0])
    assert next(batches).num_rows > 0
    batches.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before


def test_an_object_that_goes_meanwhile_is_told_so(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    reader = reader_of(cellar)
    partition = reader.partitions()[0]
    (cellar.folder / TEN[3].key).unlink()
    with pytest.raises(Unavailable, match="removed while the query was running"):
        list(reader.read(partition))


def test_a_survey_tells_damaged_streams_from_whole_ones(cellar: Cellar) -> None:
    """Who reads through a damaged manifest cannot be sure of anything either."""
    source = tuple(heritage("bad", 1, (), 1))
    fork = manifest("fork", 2, sealed=1, ancestors=source)
    grandchild = tuple(heritage("fork", 2, source, 1))
    cellar.lay(
        *(manifest(name, sealed=1) for name in ("bad", "lost", "whole")),
        fork,
        manifest("of the fork", 3, sealed=1, ancestors=grandchild),
        pieces=[piece(0, 1, name=name) for name in ("bad", "whole")],
    )
    path = cellar.folder / manifest_key("bad", 1)
    path.chmod(0o600)
    path.write_bytes(b"?")

    async def survey(**given: str) -> tuple[list[str], set[str]]:
        options = cellar.options(**given)
        async with options.bucket.open() as store:
            found = await Catalog(store).survey(options.selection, 0)
        return [one.name for one in found.streams], set(found.damaged)

    damaged = {"bad", "fork", "lost", "of the fork"}
    assert asyncio.run(survey()) == (["whole"], damaged)
    assert asyncio.run(survey(stream="*fork")) == ([], {"fork", "of the fork"})
    with pytest.raises(Corrupt, match="is not a manifest"):
        cellar.plan()


def test_names_are_chosen_by_a_pattern(cellar: Cellar) -> None:
    names = ["a/1", "a/2", "b", "b*", REGISTRY]
    cellar.lay(
        *(manifest(name, sealed=1) for name in names), pieces=[piece(0, 1, name=n) for n in names]
    )

    def chosen(pattern: str) -> list[str]:
        return [one.stream.name for one in cellar.plan(stream=pattern)[0]]

    assert chosen("*") == ["a/1", "a/2", "b", "b*"]
    assert chosen("a/*") == ["a/1", "a/2"]
    assert chosen("b") == ["b"]
    assert chosen("b[*]") == ["b*"]
    assert chosen("?/2") == ["a/2"]
    assert chosen("__*") == []
    assert chosen(REGISTRY) == [REGISTRY]
    assert chosen("c") == []


def test_what_is_over_is_not_shown_but_its_forks_are(cellar: Cellar) -> None:
    cellar.lay(
        manifest("gone", 1, sealed=20, deleted=True),
        manifest("late", 5, sealed=0, expires_ms=1),
        manifest("back", 6, sealed=3),
        manifest("back", 7, sealed=3, deleted=True),
        manifest("fork", 2, sealed=25, ancestors=tuple(heritage("gone", 1, (), 15))),
        pieces=[
            piece(0, 20, name="gone"),
            piece(0, 3, log=6, name="back"),
            piece(15, 25, log=2, name="fork"),
        ],
    )
    assert planned(cellar.plan()[0]) == {"fork": [(1, 0, 15), (2, 15, 25)]}
    assert planned(cellar.plan(stream="fork")[0]) == {"fork": [(1, 0, 15), (2, 15, 25)]}


def test_what_is_not_retained_is_not_shown_and_not_to_be_asked_for(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100, earliest=25), pieces=TEN[2:])
    found, _ = cellar.plan()
    assert planned(found)["s"][0] == (1, 25, 30)
    with pytest.raises(Gone, match="retains"):
        cellar.plan(**{"from": str(Offset(1, 20))})


def test_offsets_of_a_chain_are_known_by_the_rules_of_http(cellar: Cellar) -> None:
    chain = (*heritage("a", 1, (), 5), Ancestor(2, 8, "recovery"))
    cellar.lay(
        manifest("a", 1, sealed=9),
        manifest("b", 3, sealed=10, ancestors=chain),
        pieces=[
            piece(0, 9, name="a"),
            piece(5, 8, log=2, name="b"),
            piece(8, 10, log=3, name="b"),
        ],
    )
    assert planned(cellar.plan(stream="b", **{"from": str(Offset(1, 4))})[0]) == {
        "b": [(1, 4, 5), (2, 5, 8), (3, 8, 10)]
    }
    with pytest.raises(Gone, match="was lost"):
        cellar.plan(stream="b", **{"from": str(Offset(2, 9))})
    with pytest.raises(Invalid, match="forked"):
        cellar.plan(stream="b", **{"from": str(Offset(1, 6))})
    with pytest.raises(Gone, match="other logs"):
        cellar.plan(stream="b", **{"from": str(Offset(4, 0))})


def test_a_gap_is_an_error_and_not_a_shorter_stream(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN[:4] + TEN[5:])
    with pytest.raises(Corrupt, match="Nothing covers 40 to 100 of s"):
        cellar.plan()


def test_what_was_sealed_after_the_manifest_is_seen(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=20), pieces=TEN[:4])
    assert planned(cellar.plan()[0])["s"][-1] == (1, 30, 40)


def test_a_directory_that_is_no_bucket_is_left_as_it_is(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="cannot be used"):
        Cellar(tmp_path / "mistyped").plan()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Refused, match="holds no streams"):
        Cellar(tmp_path).plan()
    assert list(tmp_path.iterdir()) == []


def test_partitions_hold_as_much_as_was_asked_for(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=TEN)
    found, _ = cellar.plan()
    single = list(partitions(cellar.options(partitionBytes="1"), found))
    assert [len(one.work) for one in single] == [1] * 10
    assert [len(one.work) for one in partitions(cellar.options(), found)] == [10]


def test_the_command_lists_what_there_is(
    cellar: Cellar, capsys: pytest.CaptureFixture[str]
) -> None:
    cellar.lay(manifest(sealed=25), pieces=[*TEN[:2], piece(20, 25)])
    assert cli.main(["streams", str(cellar.folder)]) == 0
    heading, line = capsys.readouterr().out.splitlines()
    assert heading.startswith("stream")
    assert line.split()[-3:] == ["25", "2", "1"]
    assert cli.main(["streams", str(cellar.folder), "--stream", "x*", "--json"]) == 0
    assert capsys.readouterr().out == "[]\n"
    assert cli.main(["streams", "ftp://nowhere"]) == 1
    assert "names no object store" in capsys.readouterr().err
