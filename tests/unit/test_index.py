"""Indexes are a pure function of the records, however these were divided into pieces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.cold import index as indexes
from tiering.cold.index import Index, Record
from tiering.errors import Corrupt
from tiering.messages import pack_lengths

APPENDS = st.lists(st.lists(st.integers(1, 20), min_size=1, max_size=6), min_size=1, max_size=12)


def records(appends: list[list[int]]) -> list[Record]:
    """Each append is a list of message lengths."""
    end, found = 0, []
    for number, lengths in enumerate(appends):
        end += sum(lengths)
        packed = pack_lengths(lengths) if len(lengths) > 1 else b""
        found.append(Record(end, 1000 + number, packed, f"0:{number}:p", f"s{number:03d}"))
    return found


def message_ends(appends: list[list[int]]) -> list[int]:
    ends = [0]
    for lengths in appends:
        ends += [ends[-1] + sum(lengths[: n + 1]) for n in range(len(lengths))]
    return ends[1:]


def of(found: list[Record], start: int, end: int) -> Index:
    inside = [r for r in found if r.end > start and r.begin < end]
    return indexes.build(start, end, b"x" * (end - start), inside, {}, "")


@given(APPENDS)
def test_an_index_knows_every_boundary_and_survives_its_bytes(appends: list[list[int]]) -> None:
    found = records(appends)
    index = of(found, 0, found[-1].end)
    assert index.message_ends() == message_ends(appends)
    assert index.append_ends() == [record.end for record in found]
    assert list(index.times_ms()) == [record.time_ms for record in found]
    assert index.producers == {"p": (0, len(appends) - 1)}
    assert indexes.decode(index.encode(), "k") == index


@given(APPENDS, st.data())
def test_two_pieces_know_what_one_would(appends: list[list[int]], data: st.DataObject) -> None:
    found, ends = records(appends), message_ends(appends)
    cut = data.draw(st.sampled_from(ends))
    tail = found[-1].end
    first = of(found, 0, cut)
    boundaries = first.message_ends()
    if cut < tail:
        boundaries = boundaries + of(found, cut, tail).message_ends()
    assert boundaries == ends
    assert first.divides_append == (cut not in [record.end for record in found])


@given(APPENDS, st.data())
def test_a_divided_append_says_nothing_of_its_producer(
    appends: list[list[int]], data: st.DataObject
) -> None:
    found = records(appends)
    cut = data.draw(st.sampled_from(message_ends(appends)))
    whole = [record for record in found if record.end <= cut]
    expected = {"p": (0, len(whole) - 1)} if whole else {}
    assert of(found, 0, cut).producers == expected


@given(APPENDS, st.integers(0, 400))
def test_only_boundaries_are_boundaries(appends: list[list[int]], position: int) -> None:
    found = records(appends)
    index = of(found, 0, found[-1].end)
    assert index.is_boundary(position) == (position in [0, *message_ends(appends)])


@pytest.mark.parametrize("damage", [b"", b"DSI", b"XXX\x01", b"DSI\x01garbage"])
def test_damage_is_said_with_the_key(damage: bytes) -> None:
    with pytest.raises(Corrupt, match="index/some/key"):
        indexes.decode(damage, "index/some/key")


def test_an_unknown_version_is_refused_and_named() -> None:
    with pytest.raises(Corrupt, match="version 9"):
        indexes.decode(b"DSI\x09rest", "k")


def test_an_index_does_not_depend_on_the_order_in_which_redis_tells_producers() -> None:
    records = [Record(5, 1, producer="0:1:b"), Record(9, 2, producer="0:0:c")]
    told = {"a": (0, 1), "b": (0, 0), "z": (2, 2)}
    otherwise = dict(reversed(told.items()))
    assert (
        indexes.build(0, 9, b"x" * 9, records, told, "").encode()
        == indexes.build(0, 9, b"x" * 9, records, otherwise, "").encode()
    )
