"""From an object and its index to columns: what is computed on arrays is what plain Python says."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import LongType, StructField, StructType

from spark.batches import Batches, payloads
from spark.fields import Fields
from spark.messages import Messages, decode
from spark.planning import Source
from spark.tokens import tokens
from tiering.cold import index as indexes
from tiering.cold.cover import Slice
from tiering.cold.index import Index, Record
from tiering.cold.keys import Piece
from tiering.errors import Corrupt, Invalid, Refused
from tiering.messages import body, pack_lengths
from tiering.offset import Offset
from tiering.stream import ContentType

JSON = ContentType("application/json")
BYTES = ContentType("application/octet-stream")
START = 40

appends_of = st.lists(
    st.lists(st.binary(min_size=1, max_size=9), min_size=1, max_size=5), max_size=9
)


def sealed(appends: list[list[bytes]], content_type: ContentType) -> tuple[Piece, Index, bytes]:
    """As the sealer stores them."""
    separator = b"," if content_type.is_json else b""
    records, stored = [], b""
    for number, batch in enumerate(appends):
        lengths = [len(message + separator) for message in batch]
        stored += b"".join(message + separator for message in batch)
        packed = pack_lengths(lengths) if len(batch) > 1 else b""
        records.append(Record(START + len(stored), 1000 + number, packed))
    piece = Piece("chunk", "s", 1, START, START + len(stored))
    content = body(content_type, stored)
    return piece, indexes.build(piece.start, piece.end, content, records, {}, ""), content


def of_json(*values: Any) -> Messages:
    piece, index, content = sealed([[json.dumps(one, indent=1).encode() for one in values]], JSON)
    return decode(index, content, Slice(piece, piece.start, piece.end), is_json=True)


@settings(deadline=None)
@given(appends_of.filter(bool))
def test_json_messages_are_cut_where_the_index_says(appends: list[list[bytes]]) -> None:
    piece, index, content = sealed(appends, JSON)
    found = decode(index, content, Slice(piece, piece.start, piece.end), is_json=True)
    assert found.bounds.tolist() == [START, *index.message_ends()]
    assert payloads(found).to_pylist() == [message for batch in appends for message in batch]
    assert found.times_ms is not None
    times = [1000 + number for number, batch in enumerate(appends) for _ in batch]
    assert found.times_ms.tolist() == times


@settings(deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=9), min_size=1), st.data())
def test_any_bytes_of_a_byte_stream_can_be_asked_for(
    appends: list[bytes], data: st.DataObject
) -> None:
    piece, index, content = sealed([[one] for one in appends], BYTES)
    start = data.draw(st.integers(piece.start, piece.end - 1))
    end = data.draw(st.integers(start + 1, piece.end))
    found = decode(index, content, Slice(piece, start, end), is_json=False)
    assert b"".join(payloads(found).to_pylist()) == content[start - START : end - START]
    assert (found.bounds[0], found.bounds[-1]) == (start, end)
    assert set(found.bounds[1:-1].tolist()) <= set(index.message_ends())


def test_a_place_inside_a_json_message_is_refused() -> None:
    piece, index, content = sealed([[b"123"], [b"456"]], JSON)
    with pytest.raises(Invalid, match="inside a message"):
        decode(index, content, Slice(piece, piece.start + 1, piece.end), is_json=True)


def test_an_object_that_is_not_what_was_written_is_refused() -> None:
    piece, index, content = sealed([[b"123"], [b"456"]], JSON)
    whole = Slice(piece, piece.start, piece.end)
    with pytest.raises(Corrupt, match="not what was written"):
        decode(index, content.replace(b"2", b"7"), whole, is_json=True)
    longer = replace(piece, end=piece.end + 1)
    with pytest.raises(Corrupt, match="not what its index describes"):
        decode(index, content, replace(whole, piece=longer), is_json=True)


def test_messages_before_a_time_are_left_out() -> None:
    piece, index, content = sealed([[b"1", b"2"], [b"3"], [b"4", b"5"]], JSON)
    found = decode(index, content, Slice(piece, piece.start, piece.end), is_json=True)
    assert payloads(found.since(1001)).to_pylist() == [b"3", b"4", b"5"]
    assert found.since(1003).count == 0
    assert found.since(0) is found


@settings(deadline=None)
@given(st.integers(0, 2**53 - 1), st.lists(st.integers(0, 2**53 - 1)))
def test_tokens_are_those_of_the_http_surface(log: int, positions: list[int]) -> None:
    found = tokens(log, np.array(positions, np.int64))
    assert found.to_pylist() == [str(Offset(log, position)) for position in positions]


SCHEMA = pa.schema(
    [
        ("n", pa.int64()),
        ("s", pa.string()),
        ("deep", pa.struct([("x", pa.list_(pa.float64()))])),
    ]
)
scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text("aé\n\\", max_size=3)
values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["n", "s", "deep", "x", "z"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def fitting(value: Any) -> dict[str, Any] | None:
    """The fields of a value, None when it does not fit; the rule said plainly."""
    if not isinstance(value, dict):
        return None
    n, s, deep = (value.get(name) for name in ("n", "s", "deep"))
    fits = n is None or (isinstance(n, int) and not isinstance(n, bool))
    fits = fits and (s is None or isinstance(s, str))
    if not fits or not (deep is None or isinstance(deep, dict)):
        return None
    if deep is not None:
        xs = deep.get("x")
        if not (xs is None or isinstance(xs, list)):
            return None
        for x in xs or []:
            if isinstance(x, bool) or not (x is None or isinstance(x, int)):
                return None
        deep = {"x": xs}
    return {"n": n, "s": s, "deep": deep}


@settings(deadline=None)
@given(st.lists(values, min_size=1, max_size=12))
def test_fields_fit_or_are_null(messages: list[Any]) -> None:
    columns, corrupt = Fields(SCHEMA, fails_fast=False).parse(of_json(*messages))
    found = pa.table(columns, schema=SCHEMA).to_pylist()
    wanted = [fitting(message) for message in messages]
    nothing = {"n": None, "s": None, "deep": None}
    assert found == [nothing if one is None else one for one in wanted]
    assert corrupt.to_pylist() == [one is None for one in wanted]


def test_what_does_not_fit_can_be_an_error() -> None:
    strict = Fields(SCHEMA, fails_fast=True)
    strict.parse(of_json({"n": 1}))
    with pytest.raises(Corrupt, match="does not fit"):
        strict.parse(of_json({"n": 1}, {"n": "x"}))


@pytest.mark.parametrize("kind", [pa.binary(), pa.map_(pa.string(), pa.int64())])
def test_types_that_arrow_would_read_differently_or_not_at_all_are_refused(
    kind: pa.DataType,
) -> None:
    with pytest.raises(Refused, match="Arrow reads no"):
        Fields(pa.schema([("x", kind)]), fails_fast=False)


def test_a_clock_that_was_put_back_does_not_let_older_messages_in() -> None:
    messages = Messages(np.arange(5), np.zeros(4, np.uint8), np.array([1, 7, 2, 8]), is_json=False)
    schema = StructType([StructField("position", LongType())])
    found = Batches(schema, since_ms=7).batches([(Source("s", 1, "text/plain"), messages)])
    assert [row["position"] for batch in found for row in batch.to_pylist()] == [1, 3]
