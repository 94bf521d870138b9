from hypothesis import given
from hypothesis import strategies as st

from tiering.cold.keys import (
    Piece,
    manifest_key,
    parse_chunk_key,
    parse_manifest_key,
    parse_part_key,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)
NUMBERS = st.integers(0, 2**53 - 1)
PARTS = st.builds(Piece, st.just("part"), NAMES, NUMBERS, NUMBERS, NUMBERS)
CHUNKS = st.builds(Piece, st.just("chunk"), NAMES, NUMBERS, NUMBERS, NUMBERS)


@given(PARTS)
def test_a_part_survives_its_key(part: Piece) -> None:
    assert parse_part_key(part.key) == part
    assert parse_chunk_key(part.key) is None


@given(CHUNKS)
def test_a_chunk_is_named_by_where_it_starts(chunk: Piece) -> None:
    assert parse_chunk_key(chunk.key) == (chunk.name, chunk.log, chunk.start)
    assert parse_part_key(chunk.key) is None


@given(NAMES, NUMBERS)
def test_a_manifest_key_survives(name: str, log: int) -> None:
    assert parse_manifest_key(manifest_key(name, log)) == (name, log)


@given(CHUNKS | PARTS)
def test_a_name_is_one_segment_and_the_index_stands_beside(piece: Piece) -> None:
    assert piece.key.count("/") == 2
    assert piece.index_key == f"index/{piece.key}"


@given(CHUNKS)
def test_the_offset_of_a_chunk_is_in_its_key(chunk: Piece) -> None:
    assert chunk.key.endswith(f"/{chunk.log:016d}_{chunk.start:016d}")
