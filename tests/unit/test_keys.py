from dataclasses import astuple

from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from tiering.hot.keys import stream_keys, stream_name

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=50)


@given(NAMES)
def test_a_name_survives_its_keys(name: str) -> None:
    keys = stream_keys(name)
    assert stream_name(keys.meta) == name
    assert stream_name(keys.block(1, 2)) == name


@given(NAMES)
def test_all_keys_of_a_stream_share_a_hash_slot(name: str) -> None:
    keys = stream_keys(name)
    all_keys = [*astuple(keys), keys.block(9, 0)]
    assert len({key_slot(key.encode()) for key in all_keys}) == 1
    assert len(set(all_keys)) == len(all_keys)


@given(NAMES, NAMES)
def test_two_streams_never_share_a_key(a: str, b: str) -> None:
    assert (stream_keys(a) == stream_keys(b)) == (a == b)
