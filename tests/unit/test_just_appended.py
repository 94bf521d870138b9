"""What a sealer may take from the worker's memory, and what it must ask Redis for."""

from tiering.hot.connection import LARGE_BYTES
from tiering.hot.just_appended import JustAppended

RUN, LOG = "a run", 7


def payload(letter: bytes) -> bytes:
    return letter * LARGE_BYTES


def holding(*letters: bytes, capacity: int = 2**30) -> JustAppended:
    held = JustAppended(capacity)
    for number, letter in enumerate(letters):
        held.note(RUN, LOG, number * LARGE_BYTES, payload(letter))
    return held


def test_payloads_that_make_up_a_range_are_taken_in_order_and_once() -> None:
    held = holding(b"a", b"b", b"c")
    assert held.take(RUN, LOG, 0, 2 * LARGE_BYTES) == [payload(b"a"), payload(b"b")]
    assert not held.take(RUN, LOG, 0, 2 * LARGE_BYTES)
    assert held.take(RUN, LOG, 2 * LARGE_BYTES, 3 * LARGE_BYTES) == [payload(b"c")]


def test_a_range_with_a_gap_or_a_divided_payload_is_not_made_up() -> None:
    held = holding(b"a", b"b")
    assert not held.take(RUN, LOG, 0, 3 * LARGE_BYTES)
    assert not held.take(RUN, LOG, 0, 2 * LARGE_BYTES - 1)
    assert not held.take(RUN, LOG, 1, LARGE_BYTES)


def test_nothing_of_another_run_or_another_log_is_given() -> None:
    held = holding(b"a")
    assert not held.take("another run", LOG, 0, LARGE_BYTES)
    assert not held.take(RUN, LOG + 1, 0, LARGE_BYTES)


def test_the_oldest_payloads_make_room() -> None:
    held = holding(b"a", b"b", b"c", capacity=2 * LARGE_BYTES)
    assert not held.take(RUN, LOG, 0, LARGE_BYTES)
    assert held.take(RUN, LOG, LARGE_BYTES, 3 * LARGE_BYTES) == [payload(b"b"), payload(b"c")]


def test_a_position_that_is_written_again_is_counted_once() -> None:
    held = holding(b"a", capacity=2 * LARGE_BYTES)
    held.note(RUN, LOG, 0, payload(b"b"))
    held.note(RUN, LOG, LARGE_BYTES, payload(b"c"))
    assert held.take(RUN, LOG, 0, 2 * LARGE_BYTES) == [payload(b"b"), payload(b"c")]


def test_small_payloads_and_those_that_would_fill_everything_are_not_kept() -> None:
    held = JustAppended(LARGE_BYTES)
    held.note(RUN, LOG, 0, b"small")
    held.note(RUN, LOG, 5, payload(b"a") + b"a")
    assert not held.take(RUN, LOG, 0, 5)
    assert not held.take(RUN, LOG, 5, LARGE_BYTES + 6)
