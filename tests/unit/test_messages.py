import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.errors import Invalid
from tiering.messages import body, body_length, encode, pack_lengths, unpack_lengths
from tiering.stream import ContentType

JSON = ContentType("application/json; charset=utf-8")
BYTES = ContentType("application/octet-stream")
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(st.binary())
def test_bytes_are_stored_as_they_came(data: bytes) -> None:
    payload = encode(BYTES, data)
    assert (payload.data, payload.lengths) == (data, b"")
    assert body(BYTES, data) == data
    assert body_length(BYTES, len(data)) == len(data)


@given(st.lists(VALUES, min_size=1))
def test_a_batch_is_stored_message_by_message(values: list[object]) -> None:
    payload = encode(JSON, json.dumps(values).encode())
    assert json.loads(body(JSON, payload.data)) == values
    assert body_length(JSON, len(payload.data)) == len(body(JSON, payload.data))
    lengths = unpack_lengths(payload.lengths) or (len(payload.data),)
    assert sum(lengths) == len(payload.data)
    assert len(lengths) == len(values)


def test_surrounding_white_space_is_dropped_and_inner_kept() -> None:
    assert encode(JSON, b' [ {"a" : 1.10} ,\n2 ] ').data == b'{"a" : 1.10},2,'
    assert encode(JSON, b' {"a" : 1.10}\n').data == b'{"a" : 1.10},'


def test_an_empty_array_stores_nothing() -> None:
    assert encode(JSON, b" [ ] ").data == b""
    assert body(JSON, b"") == b"[]"
    assert body_length(JSON, 0) == 2


@pytest.mark.parametrize("broken", [b"{", b"[1,]", b'"\xff"', b"NaN", b"1 2", b"[" * 100_000])
def test_broken_json_is_refused(broken: bytes) -> None:
    with pytest.raises(Invalid):
        encode(JSON, broken)


@given(st.lists(st.integers(0, 2**32 - 1)))
def test_lengths_survive_packing(lengths: list[int]) -> None:
    assert list(unpack_lengths(pack_lengths(lengths))) == lengths
