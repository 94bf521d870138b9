"""The pure parts of recovery: paths through pieces, ends of chunks, and cutting a piece short."""

import json

import msgspec
import pytest

from tiering.cold import index as indexes
from tiering.cold.clip import clip, last_whole_append
from tiering.cold.index import Record
from tiering.cold.inventory import Holdings, longest_path
from tiering.cold.keys import Piece
from tiering.cold.manifest import VERSION, Manifest
from tiering.cold.trail import lead_through
from tiering.hot.restorer import chunk_ends
from tiering.messages import body, pack_lengths
from tiering.stream import Ancestor, ContentType

JSON = ContentType("application/json")


def piece(kind: str, start: int, end: int, log: int = 1) -> Piece:
    return Piece(kind, "s", log, start, end)  # type: ignore[arg-type]


def with_grid(grid: int) -> Manifest:
    return Manifest(VERSION, "s", 1, "text/plain", grid, created_ms=0, tail=0, sealed=0)


def spans(path: list[Piece]) -> list[tuple[str, int, int]]:
    return [(one.kind, one.start, one.end) for one in path]


def test_the_path_that_leads_furthest_is_taken() -> None:
    pieces = [piece("part", 0, 5), piece("part", 0, 9), piece("part", 5, 7), piece("part", 9, 20)]
    assert spans(longest_path(pieces, 0, None)) == [("part", 0, 9), ("part", 9, 20)]


def test_a_chunk_is_preferred_to_the_parts_it_was_merged_from() -> None:
    pieces = [piece("part", 0, 5), piece("part", 5, 10), piece("chunk", 0, 10)]
    assert spans(longest_path(pieces, 0, None)) == [("chunk", 0, 10)]


def test_nothing_of_a_log_counts_beyond_its_border() -> None:
    pieces = [piece("part", 0, 5), piece("part", 0, 9)]
    assert spans(longest_path(pieces, 0, 7)) == [("part", 0, 5)]


def test_a_path_ends_at_a_gap() -> None:
    assert spans(longest_path([piece("part", 0, 5), piece("part", 6, 9)], 0, None)) == [
        ("part", 0, 5)
    ]


@pytest.mark.parametrize(
    ("pieces", "cuts", "open_chunk"),
    [
        ([], [], 0),
        ([piece("part", 0, 90)], [], 0),
        ([piece("part", 0, 90), piece("part", 90, 120)], [120], 120),
        ([piece("chunk", 0, 105), piece("part", 105, 190)], [], 105),
        ([piece("chunk", 0, 105), piece("part", 105, 190), piece("part", 190, 200)], [200], 200),
    ],
)
def test_chunks_in_parts_end_where_a_part_reaches_the_grid(
    pieces: list[Piece], cuts: list[int], open_chunk: int
) -> None:
    assert chunk_ends(pieces, with_grid(100)) == (cuts, open_chunk)


def test_what_lies_beyond_an_end_is_seen_in_names_alone() -> None:
    holdings = Holdings("s", bodies={piece("chunk", 0, 9).key: 9, piece("part", 9, 12).key: 3})
    assert holdings.goes_on(1, 9)
    assert not holdings.goes_on(1, 12)
    assert not holdings.goes_on(2, 0)


def test_a_piece_without_its_half_append_is_as_if_it_had_ended_there() -> None:
    """As the sealer would have stored the whole appends alone."""
    first, second = b'{"a":1},', b'"b",'
    whole = Record(len(first), 10, producer="0:4:p")
    half = Record(len(first) + 3 * len(second), 20, pack_lengths([len(second)] * 3), "0:5:p", "z")
    end = len(first) + 2 * len(second)
    stored = first + 2 * second
    divided = indexes.build(0, end, body(JSON, stored), [whole, half], {}, "")
    assert divided.divides_append
    assert last_whole_append(divided) == len(first)
    shorter, index, content = clip(
        piece("chunk", 0, end), divided, body(JSON, stored), JSON, len(first)
    )
    assert shorter == piece("part", 0, len(first))
    assert json.loads(content) == [{"a": 1}]
    assert index == indexes.build(0, len(first), body(JSON, first), [whole], {}, "")


def test_what_was_not_sealed_when_a_log_began_is_found_in_that_log() -> None:
    """The border is where the tail was, and the frontier was before it."""
    past = (Ancestor(1, 15, "recovery"),)
    manifest = msgspec.structs.replace(with_grid(100), log=2, ancestors=past)
    pieces = [piece("part", 0, 10), piece("part", 10, 20, log=2)]
    assert spans(lead_through(pieces, manifest)) == [("part", 0, 10), ("part", 10, 20)]


def test_a_log_with_a_gap_before_its_border_ends_there() -> None:
    past = (Ancestor(1, 15, "recovery"),)
    manifest = msgspec.structs.replace(with_grid(100), log=2, ancestors=past)
    pieces = [piece("part", 0, 10), piece("part", 15, 20, log=2)]
    assert spans(lead_through(pieces, manifest)) == [("part", 0, 10)]
