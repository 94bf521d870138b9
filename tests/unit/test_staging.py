"""Where a large payload is cut."""

from tiering.hot.connection import LARGE_BYTES
from tiering.hot.scripts import BLOCK_BYTES
from tiering.hot.staging import Staging

MIB = bytes(BLOCK_BYTES)


def lengths(staging: Staging, data: bytes) -> list[int]:
    through_the_script, blocks = staging.split("s", data)
    assert b"".join([bytes(through_the_script), *map(bytes, blocks.values())]) == data
    return [len(through_the_script), *map(len, blocks.values())]


def knowing(tail: int) -> Staging:
    staging = Staging()
    staging.learn("s", LARGE_BYTES, tail, was_split=False)
    return staging


def test_nothing_is_cut_before_it_is_known_where_the_stream_ends() -> None:
    assert lengths(Staging(), MIB) == [BLOCK_BYTES]


def test_blocks_begin_where_the_script_will_have_them_begin() -> None:
    assert lengths(knowing(3 * BLOCK_BYTES), 2 * MIB) == [0, BLOCK_BYTES, BLOCK_BYTES]
    assert lengths(knowing(BLOCK_BYTES - 10), 2 * MIB) == [10, BLOCK_BYTES, BLOCK_BYTES - 10]


def test_what_hardly_leaves_its_block_is_not_cut() -> None:
    assert lengths(knowing(100), bytes(BLOCK_BYTES)) == [BLOCK_BYTES]
    assert lengths(knowing(0), b"small") == [5]


def test_after_a_wrong_guess_the_next_one_is_not_guessed() -> None:
    staging = knowing(BLOCK_BYTES)
    staging.learn("s", BLOCK_BYTES, 5 * BLOCK_BYTES, was_split=True)
    assert lengths(staging, MIB) == [BLOCK_BYTES]


def test_a_right_guess_goes_on() -> None:
    staging = knowing(BLOCK_BYTES)
    staging.learn("s", BLOCK_BYTES, 2 * BLOCK_BYTES, was_split=True)
    assert lengths(staging, MIB) == [0, BLOCK_BYTES]
