"""How far a follower of streams has come: offsets, losses, limits, and what it asks of a bucket."""

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxBytes
from pyspark.sql.types import LongType, StringType, StructField, StructType
from support.cellar import Cellar, manifest, piece

from spark import advance, checkpoint
from spark.checkpoint import Mark, Range
from spark.follow_options import FollowOptions
from spark.following import FollowingReader
from tiering.cold.keys import Piece, manifest_key
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt, Gone, Refused
from tiering.objects.counted import CountedStore
from tiering.objects.open import open_store
from tiering.objects.store import ObjectStore
from tiering.offset import NOW, START, Offset
from tiering.stream import Ancestor, heritage

GRID = 100
MESSAGE = 7
COLUMNS = StructType([StructField("stream", StringType()), StructField("position", LongType())])

Positions = list[list[tuple[str, int]]]

offsets = st.builds(Offset, st.integers(1, 2**53 - 1), st.integers(0, 2**53 - 1))
marks = st.builds(Mark, offsets, st.none() | offsets)


@given(st.dictionaries(st.text(min_size=1), marks), st.just(START) | st.just(NOW) | offsets)
def test_an_offset_says_what_it_was_made_of(found: dict[str, Mark], begin: Any) -> None:
    text = checkpoint.offset(found, begin)
    assert checkpoint.parse(text) == (found, begin)
    assert checkpoint.offset(*checkpoint.parse(text)) == text


@pytest.mark.parametrize("text", ["", "7", "..", "a..b", f"{Offset(1, 2)}..", f"..{Offset(1, 2)}"])
def test_an_offset_of_somebody_else_is_refused(text: object) -> None:
    with pytest.raises(Refused, match="checkpoint"):
        checkpoint.parse({"s": text})


def test_a_batch_has_what_lies_between_two_offsets() -> None:
    start = {
        "a": Mark(Offset(1, 5)),
        "b": Mark(Offset(2, 5), Offset(2, 1)),
        "c": Mark(Offset(3, 5)),
    }
    end = {
        "a": Mark(Offset(9, 7)),
        "b": Mark(Offset(2, 5), Offset(2, 1)),
        "d": Mark(Offset(4, 6)),
        "e": Mark(Offset(5, 6), Offset(5, 4)),
        "f": Mark(Offset(6, 6), Offset(6, 6)),
    }
    assert list(checkpoint.ranges(start, end)) == [
        Range("a", Offset(1, 5), Offset(9, 7)),
        Range("d", Offset(4, 0), Offset(4, 6)),
        Range("e", Offset(5, 4), Offset(5, 6)),
    ]


def test_a_stream_goes_on_by_its_chain() -> None:
    recovered = manifest(log=2, ancestors=(Ancestor(1, 50, "recovery"),))
    for mark in (Mark(Offset(1, 50)), Mark(Offset(2, 50)), Mark(Offset(1, 50), Offset(1, 10))):
        begun = advance.go_on(recovered, mark, fails_on_loss=True)
        assert begun.position == 50
        assert begun.marked(50) == mark
        assert begun.marked(60) == Mark(Offset(2, 60))


def test_a_stream_that_was_made_anew_begins_at_its_beginning() -> None:
    fork = manifest(log=3, ancestors=tuple(heritage("other", 1, (), 20)))
    for token in (Offset(2, 5), Offset(1, 21)):
        begun = advance.go_on(fork, Mark(token), fails_on_loss=True)
        assert begun.marked(30) == Mark(Offset(3, 30), Offset(3, 0))
    assert advance.go_on(fork, Mark(Offset(1, 20)), fails_on_loss=True).position == 20


@pytest.mark.parametrize(
    ("now", "resume", "reason"),
    [
        (manifest(log=2, ancestors=(Ancestor(1, 30, "recovery"),)), 30, "has lost"),
        (manifest(log=1, earliest=60), 60, "retains nothing before"),
        (manifest(log=2, earliest=60, ancestors=(Ancestor(1, 30, "recovery"),)), 60, "retains"),
    ],
)
def test_a_loss_is_an_error_or_the_query_goes_on_behind_it(
    now: Manifest, resume: int, reason: str
) -> None:
    mark, later = Mark(Offset(1, 50)), Mark(Offset(1, 70))
    with pytest.raises(Gone, match=reason) as raised:
        advance.go_on(now, mark, fails_on_loss=True)
    assert raised.value.resume == Offset(now.log, resume)
    begun = advance.go_on(now, mark, fails_on_loss=False)
    assert begun.marked(90) == Mark(Offset(now.log, 90), Offset(now.log, resume))
    wanted = Range("s", mark.end, later.end)
    with pytest.raises(Gone, match="any more"):
        advance.what_is_left(wanted, now, fails_on_loss=True)
    first, last = advance.what_is_left(wanted, now, fails_on_loss=False)
    assert (first, last) == (60, 70) if now.log == 1 else first >= last


@pytest.mark.parametrize("now", [None, manifest(deleted=True), manifest(log=2)])
def test_a_batch_of_a_stream_that_is_gone_is_a_loss(now: Manifest | None) -> None:
    wanted = Range("s", Offset(1, 50), Offset(1, 70))
    with pytest.raises(Gone, match="s has not all of"):
        advance.what_is_left(wanted, now, fails_on_loss=True)
    first, last = advance.what_is_left(wanted, now, fails_on_loss=False)
    assert first >= last


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"includeTail": "true"}, "no option includeTail"),
        ({"SINCE": "2026-01-01"}, "no option since"),
        ({"until": "-1"}, "no option until"),
        ({"from": "then"}, "neither -1, nor now"),
        ({"from": str(Offset(1, 5))}, "of one stream"),
        ({"from": str(Offset(1, 5)), "stream": "a*"}, "of one stream"),
        ({"maxBytesPerTrigger": "0"}, "no number of bytes"),
        ({"maxBytesPerTrigger": "1k"}, "no number of bytes"),
        ({"failOnDataLoss": "maybe"}, "neither true nor false"),
        ({"startingOffsets": "latest"}, "knows no option"),
        ({"partitionBytes": "x"}, "partitionBytes"),
    ],
)
def test_options_that_cannot_be_are_refused(given: dict[str, str], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        FollowOptions.parse({"url": "/x", **given})


def test_options_are_taken_in_any_case() -> None:
    given = {"URL": "/x", "stream": "s", "FROM": "now", "maxbytespertrigger": "5"}
    options = FollowOptions.parse(given | {"failondataloss": "FALSE"})
    assert (options.begin, options.most_bytes, options.fails_on_loss) == (NOW, 5, False)


class Counted(CountedStore):
    def __init__(self, store: ObjectStore, requests: Counter[str]) -> None:
        super().__init__(store)
        self._entered = store
        self.requests = requests

    async def __aenter__(self) -> Self:
        await self._entered.__aenter__()
        return self

    async def __aexit__(self, *reason: Any) -> None:
        await self._entered.__aexit__(*reason)


asked: list[FollowingReader] = []


@pytest.fixture(autouse=True)
def stopped(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As Spark does in the end. Meanwhile nobody rests."""
    monkeypatch.setattr("spark.following._REST_SECS", 0)
    yield
    while asked:
        asked.pop().stop()


class Query:
    """Does what Spark does with a reader, and keeps what it has planned."""

    def __init__(self, cellar: Cellar, **given: str) -> None:
        self.given = {"url": str(cellar.folder), **given}
        self.restart()
        self.offset: dict[str, str] = self.reader.initialOffset()
        self.planned: list[tuple[dict[str, str], dict[str, str], Positions]] = []

    def restart(self, **given: str) -> None:
        self.given |= given
        self.reader = FollowingReader(FollowOptions.parse(self.given), COLUMNS)
        asked.append(self.reader)

    def trigger(self, limit: ReadLimit | None = None) -> list[tuple[str, int]]:
        start = self.offset
        self.offset = self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit())
        if self.offset == start:
            return []
        found = self.plan(start, self.offset)
        self.planned.append((start, self.offset, found))
        return [row for task in found for row in task]

    def plan(self, start: dict[str, str], end: dict[str, str]) -> Positions:
        """What each task reads."""
        return [self._rows(task) for task in self.reader.partitions(start, end)]

    def _rows(self, task: Any) -> list[tuple[str, int]]:
        rows = [row for batch in self.reader.read(task) for row in batch.to_pylist()]
        return [(row["stream"], row["position"]) for row in rows]

    def assert_the_same_again(self) -> None:
        for start, end, found in self.planned:
            assert self.plan(start, end) == found


@pytest.fixture
def cellar(tmp_path: Path) -> Cellar:
    return Cellar(tmp_path / "objects")


def chunk_end(position: int) -> int:
    """The first end of a message at or behind the next line of the grid."""
    line = position - position % GRID + GRID
    return -(-line // MESSAGE) * MESSAGE


class Sealing:
    """Streams that are sealed and compacted at random."""

    def __init__(self, cellar: Cellar, chance: random.Random) -> None:
        self.cellar = cellar
        self.chance = chance
        self.pieces: dict[str, list[Piece]] = {}

    def end(self, name: str) -> int:
        return self.pieces[name][-1].end if self.pieces[name] else 0

    def rows(self) -> list[tuple[str, int]]:
        return [(name, at) for name in self.pieces for at in range(0, self.end(name), MESSAGE)]

    def seal(self) -> None:
        name = self.chance.choice("abc")
        if name not in self.pieces:
            self.pieces[name] = []
            self.cellar.lay(manifest(name))
        for _ in range(self.chance.randrange(1, 12)):
            start = self.end(name)
            end = min(chunk_end(start), start + MESSAGE * self.chance.randrange(1, 20))
            kind = "chunk" if end == chunk_end(start) and start in _chunk_starts(start) else "part"
            self._lay(name, piece(start, end, kind=kind, name=name))
        if self.chance.random() < 0.5:
            self.cellar.lay(manifest(name, sealed=self.end(name)))

    def compact(self) -> None:
        """What was replaced goes, now or never."""
        for name, pieces in self.pieces.items():
            for start in sorted({_chunk_start(one.start) for one in pieces}):
                old = [one for one in pieces if _chunk_start(one.start) == start]
                if len(old) > 1:
                    self._merge(name, old)

    def _merge(self, name: str, old: list[Piece]) -> None:
        start, end = old[0].start, old[-1].end
        kind = "chunk" if end == chunk_end(start) else "part"
        self._lay(name, piece(start, end, kind=kind, name=name), old)
        if self.chance.random() < 0.7:
            for one in old:
                for key in (one.key, one.index_key):
                    (self.cellar.folder / key).unlink()

    def _lay(self, name: str, one: Piece, old: list[Piece] | None = None) -> None:
        self.cellar.lay(pieces=[one], message_bytes=MESSAGE)
        kept = [each for each in self.pieces[name] if each not in (old or ())]
        self.pieces[name] = sorted([*kept, one], key=lambda each: each.start)


def _chunk_start(position: int) -> int:
    return -(-(position - position % GRID) // MESSAGE) * MESSAGE


def _chunk_starts(position: int) -> set[int]:
    return {_chunk_start(position)}


@pytest.mark.parametrize("seed", range(8))
def test_every_message_comes_once_and_batches_stay_what_they_were(
    cellar: Cellar, seed: int
) -> None:
    chance = random.Random(seed)
    sealing = Sealing(cellar, chance)
    sealing.seal()
    limits = chance.choice([{}, {"maxBytesPerTrigger": "150"}, {"maxBytesPerTrigger": "1"}])
    query = Query(cellar, partitionBytes=chance.choice(["1", "66000", "10000000"]), **limits)
    seen: list[tuple[str, int]] = []
    steps: list[Callable[[], None]] = [sealing.seal, sealing.compact, query.restart]
    for _ in range(12):
        chance.choice(steps)()
        seen += query.trigger()
    while rows := query.trigger():
        seen += rows
    assert sorted(seen) == sorted(sealing.rows())
    sealing.compact()
    query.restart()
    query.assert_the_same_again()


def ten(name: str = "s", first: int = 0) -> list[Piece]:
    return [piece(start, start + 10, name=name) for start in range(first, first + 100, 10)]


def test_streams_take_turns_and_a_batch_keeps_its_limit(cellar: Cellar) -> None:
    names = ("a", "b", "c")
    cellar.lay(
        *(manifest(name, sealed=100) for name in names),
        pieces=[one for name in names for one in ten(name)],
    )
    query = Query(cellar, maxBytesPerTrigger="25")
    sizes = [Counter(name for name, _ in query.trigger()) for _ in range(4)]
    assert sizes == [{"a": 20}, {"b": 20}, {"c": 20}, {"a": 20}]
    assert query.reader.reportLatestOffset() == {name: str(Offset(1, 100)) for name in names}
    rest = query.trigger(ReadAllAvailable())
    assert len(rest) == 300 - 80
    assert query.trigger(ReadMaxBytes(1)) == []


def test_available_now_ends_although_streams_go_on(cellar: Cellar) -> None:
    cellar.lay(manifest("a", sealed=50), pieces=ten("a")[:7])
    query = Query(cellar, maxBytesPerTrigger="30")
    query.reader.prepareForTriggerAvailableNow()
    cellar.lay(manifest("b", sealed=100), pieces=ten("a")[7:] + ten("b"))
    assert [len(query.trigger()) for _ in range(4)] == [30, 30, 10, 0]
    query.restart()
    cellar.lay(manifest("a", log=2, sealed=10), pieces=[piece(0, 10, log=2, name="a")])
    query.reader.prepareForTriggerAvailableNow()
    cellar.lay(manifest("b", log=2, sealed=10), pieces=[piece(0, 10, log=2, name="b")])
    batches = [query.trigger() for _ in range(5)]
    assert [row for batch in batches for row in batch] == [
        ("a", position) for position in range(10)
    ]
    assert query.offset == {"a": f"{Offset(2, 0)}..{Offset(2, 10)}"}


def test_who_begins_now_sees_what_is_sealed_later(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=30), pieces=ten()[:4])
    query = Query(cellar, **{"from": "now"})
    assert query.offset == {"": "now"}
    assert query.trigger() == []
    assert query.offset == {"s": f"{Offset(1, 40)}..{Offset(1, 40)}"}
    cellar.lay(manifest("t", sealed=10), pieces=[*ten()[4:5], *ten("t")[:1]])
    query.restart()
    assert query.plan(query.reader.initialOffset(), query.offset) == []
    assert query.trigger() == [(name, at + 40 * (name == "s")) for name in "st" for at in range(10)]


def test_who_begins_at_an_offset_waits_for_its_stream(cellar: Cellar) -> None:
    cellar.lay()
    query = Query(cellar, stream="s", **{"from": str(Offset(1, 15))})
    assert query.trigger() == []
    query.restart()
    cellar.lay(manifest(sealed=20), pieces=ten()[:2])
    assert query.trigger() == [("s", position) for position in range(15, 20)]
    query.assert_the_same_again()
    cellar.lay(manifest(log=2, sealed=20), pieces=[piece(0, 20, log=2)])
    assert len(query.trigger()) == 20
    stranger = Query(cellar, stream="s", **{"from": str(Offset(7, 1))})
    with pytest.raises(Gone, match="no offset of s"):
        stranger.trigger()


def test_what_is_retained_when_a_stream_is_met_is_where_it_begins(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100, earliest=25), pieces=ten())
    query = Query(cellar)
    assert query.trigger()[0] == ("s", 25)
    assert query.offset == {"s": f"{Offset(1, 25)}..{Offset(1, 100)}"}
    query.restart()
    query.assert_the_same_again()
    cellar.lay(manifest(sealed=100, earliest=40), pieces=ten())
    with pytest.raises(Gone, match="s has not all of"):
        query.assert_the_same_again()
    query.restart(failOnDataLoss="false")
    start, end, _ = query.planned[0]
    assert query.plan(start, end)[0][0] == ("s", 40)


def test_a_mark_stays_until_nothing_is_left_of_its_stream(cellar: Cellar) -> None:
    """Else a late writer of a manifest, or a clock, would bring everything again."""
    cellar.lay(manifest(log=2, sealed=10, ancestors=(Ancestor(1, 5, "recovery"),)))
    cellar.lay(pieces=[piece(0, 5), piece(5, 10, log=2)])
    query = Query(cellar)
    assert len(query.trigger()) == 10
    for left in (
        manifest(log=2, sealed=10, deleted=True),
        manifest(log=2, sealed=10, expires_ms=1),
        manifest(log=2, sealed=10),
    ):
        cellar.lay(left)
        assert query.trigger() == []
        assert query.offset == {"s": str(Offset(2, 10))}
    cellar.lay(manifest(log=1, sealed=5))
    (cellar.folder / manifest_key("s", 2)).unlink()
    assert query.trigger() == []
    assert query.offset == {"s": str(Offset(2, 10))}
    (cellar.folder / manifest_key("s", 1)).unlink()
    assert query.trigger() == []
    assert query.offset == {}


def test_rows_of_a_batch_keep_their_log_although_the_stream_has_another(cellar: Cellar) -> None:
    cellar.lay(manifest(log=1, sealed=20), pieces=[piece(0, 20)])
    query = Query(cellar)
    query.trigger()
    cellar.lay(manifest(log=2, sealed=20, ancestors=(Ancestor(1, 20, "recovery"),)))
    query.restart()
    (task,) = query.reader.partitions(*query.planned[0][:2])
    assert {one.source.log for one in task.work} == {1}  # type: ignore[attr-defined]
    cellar.lay(pieces=[piece(20, 30, log=2)])
    assert query.trigger() == [("s", position) for position in range(20, 30)]


def test_a_piece_that_is_missing_fails_the_batch(cellar: Cellar) -> None:
    cellar.lay(manifest(sealed=100), pieces=ten()[:5] + ten()[6:])
    with pytest.raises(Corrupt, match="Nothing covers 50"):
        Query(cellar, failOnDataLoss="false").trigger()


def test_a_start_inside_a_long_message_is_found(cellar: Cellar) -> None:
    """Of bytes, which may be read from anywhere."""
    cellar.lay(manifest(sealed=900), pieces=[piece(0, 900, kind="chunk")], message_bytes=900)
    query = Query(cellar, stream="s", **{"from": str(Offset(1, 555))})
    assert query.trigger() == [("s", 555)]


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    found: Counter[str] = Counter()

    def counted(url: str, **more: Any) -> Counted:
        return Counted(open_store(url, **more), found)

    monkeypatch.setattr("spark.options.open_store", counted)
    return found


def settle(cellar: Cellar) -> None:
    """As if nothing had been written for a while."""
    for place, _, names in os.walk(cellar.folder):
        for name in names:
            os.utime(Path(place) / name, (1, 1))


def test_a_trigger_in_which_nothing_happened_asks_little(
    cellar: Cellar, requests: Counter[str]
) -> None:
    history = [piece(start, start + 100, kind="chunk") for start in range(0, 250_000, 100)]
    closed = manifest("closed", sealed=10, closed=True)
    cellar.lay(
        manifest(sealed=250_000), closed, pieces=[*history[-3:], piece(0, 10, name="closed")]
    )
    for one in history:
        (cellar.folder / one.key).touch()
    settle(cellar)
    query = Query(cellar, stream="*")
    query.offset = {"closed": str(Offset(1, 10)), "s": str(Offset(1, 250_000))}
    assert query.trigger() == []
    assert requests == {"get": 3, "list": 3}
    requests.clear()
    assert query.trigger() == []
    assert requests == {"list": 3}
    requests.clear()
    cellar.lay(manifest(sealed=250_050), pieces=[piece(250_000, 250_050)])
    assert len(query.trigger()) == 50
    assert requests == {"get": 4, "list": 6}


def test_many_streams_are_listed_together(cellar: Cellar, requests: Counter[str]) -> None:
    names = [f"s{number}" for number in range(80)]
    cellar.lay(*(manifest(name, sealed=10) for name in names))
    cellar.lay(pieces=[piece(0, 10, name=name) for name in names])
    settle(cellar)
    query = Query(cellar)
    assert len(query.trigger()) == 800
    assert requests["list"] == 2 * 3
    requests.clear()
    assert query.trigger() == []
    assert requests == {"list": 3}
