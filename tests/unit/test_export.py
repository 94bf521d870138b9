"""How an export names things, where it goes on, how it is divided, and what becomes of it."""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark.export.directory import Busy, Directory
from spark.export.files import by_day
from spark.export.harvest import harvest
from spark.export.layout import path_of
from spark.export.planning import Due, Segment, batches, due, tasks
from spark.export.state import VERSION, State
from spark.export.summary import Tally, report
from spark.export.writing import Outcome, Result
from spark.planning import Source
from tiering.cold.catalog import SealedStream
from tiering.cold.cover import Slice
from tiering.cold.keys import Piece
from tiering.cold.manifest import VERSION as MANIFEST_VERSION
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt, Refused
from tiering.offset import Offset
from tiering.stream import Ancestor

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=300)
KIB = 1024


def folder_of(name: str) -> str:
    return path_of(name, 0, Offset(1, 0), 5).split("/")[0]


@given(NAMES, NAMES)
def test_a_folder_fits_any_file_system_and_belongs_to_one_stream(one: str, other: str) -> None:
    folder = folder_of(one)
    assert re.fullmatch(r"stream_dir=[A-Za-z0-9_.~%^-]{1,240}", folder)
    assert (folder == folder_of(other)) == (one == other)
    assert re.fullmatch(r"(?:[^%]|%[0-9A-F]{2})+", folder)


def test_what_was_cut_is_not_the_folder_of_a_stream_of_that_name() -> None:
    cut = folder_of("n" * 400).removeprefix("stream_dir=")
    assert folder_of(cut) != f"stream_dir={cut}"


def test_files_are_named_by_day_and_place() -> None:
    day = (datetime(2026, 3, 1, tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)).days
    assert path_of("a/b", day, Offset(7, 11), 13) == (
        "stream_dir=a%2Fb/day=2026-03-01/0000000000000007_0000000000000011-0000000000000013.parquet"
    )


def test_a_batch_is_divided_where_the_day_changes_in_utc() -> None:
    times = np.array([-1, 0, 86_399_999, 86_400_000, 0]) * 1000
    batch = pa.RecordBatch.from_arrays(
        [pa.array(times).cast(pa.timestamp("us", "UTC"))], names=["append_time"]
    )
    assert [(day, rows.num_rows) for day, rows in by_day(batch)] == [
        (-1, 1),
        (0, 2),
        (1, 1),
        (0, 1),
    ]


def stream(end: int, log: int = 5, earliest: int = 0, **more: Any) -> SealedStream:
    manifest = Manifest(
        MANIFEST_VERSION, "s", log, "text/plain", 10, 0, end, end, earliest=earliest, **more
    )
    starts = range(earliest - earliest % 10, end, 10)
    pieces = (Piece("chunk", "s", log, start, min(start + 10, end)) for start in starts)
    slices = (Slice(piece, max(piece.start, earliest), piece.end) for piece in pieces)
    return SealedStream(manifest, earliest, tuple(slices))


def ranges(one: Due) -> list[tuple[int, int]]:
    return [(each.start, each.end) for each in one.slices]


def test_an_export_goes_on_where_the_last_one_ended() -> None:
    assert ranges(due(stream(25), None)) == [(0, 10), (10, 20), (20, 25)]
    on = due(stream(25), Offset(5, 12))
    assert (on.start, ranges(on), on.end) == (Offset(5, 12), [(12, 20), (20, 25)], Offset(5, 25))
    done = due(stream(25), Offset(5, 25))
    assert (done.slices, done.end, done.gap) == ((), Offset(5, 25), None)


def test_what_is_not_retained_is_a_gap() -> None:
    on = due(stream(25, earliest=15), Offset(5, 12))
    assert (on.gap, ranges(on)) == ((Offset(5, 12), Offset(5, 15)), [(15, 20), (20, 25)])
    assert due(stream(25, earliest=15), Offset(5, 15)).gap is None
    assert due(stream(15, earliest=15), None).gap == (Offset(5, 0), Offset(5, 15))


def test_a_recovered_stream_goes_on_in_its_new_log() -> None:
    past = (Ancestor(4, 12, "recovery", ""), Ancestor(5, 20, "recovery", ""))
    recovered = stream(25, log=6, ancestors=past)
    on = due(recovered, Offset(5, 18))
    assert (on.start, on.superseded, on.is_anew) == (Offset(6, 18), None, False)
    lost = due(recovered, Offset(4, 15))
    assert (lost.start, lost.superseded) == (Offset(6, 12), (Offset(4, 12), Offset(4, 15)))


def test_another_stream_of_the_same_name_begins_anew() -> None:
    anew = due(stream(25, log=9), Offset(5, 18))
    assert (anew.start, anew.is_anew, anew.gap) == (Offset(9, 0), True, None)
    forked = stream(25, log=9, ancestors=(Ancestor(5, 20, "fork", "other"),))
    assert due(forked, Offset(5, 18)).is_anew


def test_a_stream_that_has_less_than_was_exported_is_damaged() -> None:
    with pytest.raises(Corrupt, match="before what was exported"):
        due(stream(25), Offset(5, 26))


def wanted(name: str, pieces: int, size: int = 4 * KIB * KIB) -> Due:
    slices = (
        Slice(Piece("chunk", name, 1, n * size, (n + 1) * size), n * size, (n + 1) * size)
        for n in range(pieces)
    )
    return Due(Source(name, 1, "text/plain"), Offset(1, 0), tuple(slices))


def test_small_streams_share_a_task_and_large_ones_have_several() -> None:
    streams = [wanted(f"s{n}", 1, 100) for n in range(300)] + [wanted("large", 100)]
    found = list(tasks(streams, 2))
    segments = [segment for task in found for segment in task]
    slices = [one for segment in segments for one in segment.slices]
    assert slices == [one for each in streams for one in each.slices]
    assert len(found) < 10
    assert len([one for one in segments if one.source.name == "large"]) > 2
    names = [{segment.source.name for segment in task} for task in found]
    assert sum("s7" in each for each in names) == 1
    assert [task for batch in batches(found, 3) for task in batch] == found
    assert list(tasks([wanted("empty", 0)], 2)) == []


def result(number: int, end: int, outcome: Outcome = "done") -> Result:
    return Result(number, end, (), outcome)


def test_what_lies_behind_a_hole_is_not_taken() -> None:
    parts = list(wanted("a", 3, 10).segments(1)) + list(wanted("b", 1, 10).segments(1))
    segments = list(enumerate(parts))
    done = [result(3, 10), result(2, 30), result(1, 10, "damaged"), result(0, 10)]
    crop = harvest(segments, done)
    assert crop.reached == {"a": Offset(1, 10), "b": Offset(1, 10)}
    assert {name: one.number for name, one in crop.stopped.items()} == {"a": 1}
    inside = harvest(segments, [result(0, 10), result(1, 15, "removed"), *done[:2]])
    assert inside.reached["a"] == Offset(1, 15)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Directory]:
    found = Directory(tmp_path / "to")
    with found.open():
        found.clear()
        yield found


def pending(directory: Directory, content: bytes = b"rows") -> State:
    (directory.drafts / "x.draft").write_bytes(content)
    state = State(VERSION, "d", streams={"s": str(Offset(1, 3))})
    draft = str((directory.drafts / "x.draft").relative_to(directory.root))
    return state.intending([(draft, "stream_dir=s/day=2026-01-01/x.parquet")], {"s": Offset(1, 9)})


def test_what_was_intended_is_finished_and_other_drafts_go(directory: Directory) -> None:
    state = pending(directory)
    (directory.drafts / "y.draft").write_bytes(b"nobody's")
    done = directory.settle(state)
    assert done.streams == {"s": str(Offset(1, 9))}
    assert directory.state() == done
    assert [path.name for path in directory.root.rglob("*.parquet")] == ["x.parquet"]
    assert list(directory.root.rglob("*.draft")) == []
    assert directory.settle(state) == done, "a second time is as good as once"


def test_a_file_that_is_nowhere_is_named(directory: Directory) -> None:
    state = pending(directory)
    (directory.drafts / "x.draft").unlink()
    with pytest.raises(Refused, match=r"x\.parquet is gone, .* restore it"):
        directory.settle(state)


def test_one_run_at_a_time_and_a_lock_that_goes_with_it(directory: Directory) -> None:
    with pytest.raises(Busy, match="is at work"), Directory(directory.root).open():
        pass


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not the state"),
        ('{"version": 2}', "version 2"),
        ('{"version": 1}', "is not the state"),
        ('{"version": 1, "deployment": "d", "streams": {"s": "5"}}', "no offset"),
    ],
)
def test_a_state_that_cannot_be_read_is_refused(
    directory: Directory, text: str, reason: str
) -> None:
    (directory.root / "_export" / "state.json").write_text(text)
    with pytest.raises(Refused, match=reason):
        directory.state()


def test_gaps_are_kept_for_readers_and_told_to_people() -> None:
    one = due(stream(25, earliest=15), Offset(5, 12))
    past = (Ancestor(5, 10, "recovery", ""),)
    other = due(stream(25, log=6, ancestors=past), Offset(5, 12))
    state = State(VERSION, "d").noting([one]).noting([other])
    kept = json.loads(state.encode())
    assert kept["gaps"] == {"s": [[str(Offset(5, 12)), str(Offset(5, 15))]]}
    assert kept["superseded"] == {"s": [[str(Offset(5, 10)), str(Offset(5, 12))]]}
    tally = Tally()
    for found in (one, other):
        tally.noted(found)
    tally.damaged("bad", "The object is gone.")
    tally.damaged("bad", "The object is gone.")
    said = report(tally.finished())
    assert f"s: 3 bytes, {Offset(5, 12)} to {Offset(5, 15)}" in said
    assert "exported, and lost by a recovery since: 1" in said
    assert "damaged, and exported up to there: 1\n  bad: The object is gone." in said


def test_only_what_fits_one_task_stays_together() -> None:
    one = wanted("a", 3, 10)
    cost = Segment(one.source, one.slices).cost
    assert len(list(one.segments(cost))) == 1
    assert len(list(one.segments(cost - 1))) == 2
