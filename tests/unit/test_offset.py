import pytest
from hypothesis import given
from hypothesis import strategies as st

from tiering.offset import NOW, START, Offset, parse_read_from

NUMBERS = st.integers(min_value=0, max_value=2**53 - 1)
OFFSETS = st.builds(Offset, NUMBERS, NUMBERS)


@given(OFFSETS)
def test_an_offset_survives_its_text(offset: Offset) -> None:
    assert Offset.parse(str(offset)) == offset


@given(OFFSETS, OFFSETS)
def test_texts_sort_as_offsets_do(a: Offset, b: Offset) -> None:
    assert (str(a) < str(b)) == (a < b)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "0",
        "-2",
        "NOW",
        "0,1",
        " ",
        "/",
        "..",
        "\0",
        "9999999999999999_9999999999999999",
        "0000000000000001_0000000000000001\n",
        "\u0660" * 15 + "\u0661_0000000000000001",
        "0000000000000001-0000000000000001",
        "00000000000000001_0000000000000001",
    ],
)
def test_what_was_never_an_offset_is_recognised(text: str) -> None:
    assert parse_read_from(text) is None


def test_the_sentinels_and_the_zero_alias() -> None:
    assert parse_read_from("-1") is START
    assert parse_read_from("now") is NOW
    assert parse_read_from(f"{0:016d}_{0:016d}") is START
