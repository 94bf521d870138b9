"""What a worker remembers of a stream that it hears."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds_server.live.recent import Recent
from tiering.hot.wake import State, Wake
from tiering.stream import ContentType, Lifetime, Stream

LOG = 7


def stream(tail: int = 0, lifetime: Lifetime | None = None) -> Stream:
    text = ContentType("text/plain")
    return Stream("s", LOG, (), text, lifetime or Lifetime(), None, False, tail, 0, 0, 0, 1024, 0)


def wake(start: int, data: bytes, state: State = State.OPEN, log: int = LOG) -> Wake:
    return Wake(log, start, start + len(data), state, None, data)


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=1, max_size=40), st.data())
def test_whoever_is_a_little_behind_gets_the_rest_in_one_piece(
    appends: list[bytes], data: st.DataObject
) -> None:
    recent, position, starts = Recent(stream()), 0, []
    for append in appends:
        starts.append(position)
        assert recent.add(wake(position, append), 0.0)
        position += len(append)
    start = data.draw(st.sampled_from(starts))
    news = recent.since(start)
    assert news is not None
    assert news.stored == b"".join(appends)[start:]
    assert (news.view.start, news.view.end, news.view.at_tail) == (start, position, True)
    assert recent.since(position) is None


def test_all_who_are_at_one_place_share_one_encoding() -> None:
    recent = Recent(stream())
    recent.add(wake(0, b"abc"), 0.0)
    first, second = recent.since(0), recent.since(0)
    assert first is not None
    assert first is second
    assert first.frame(b"", None) is first.frame(b"", None)


def test_memory_is_bounded_and_what_is_left_out_is_not_claimed() -> None:
    recent, position = Recent(stream()), 0
    for _ in range(100):
        assert recent.add(wake(position, bytes(1000)), 0.0)
        position += 1000
    assert recent.since(0) is None
    assert not recent.reaches_back_to(stream().at(0))
    kept = [start for start in range(0, position, 1000) if recent.since(start)]
    assert 0 < len(kept) * 1000 <= 32 * 1024
    assert kept[-1] == position - 1000


@pytest.mark.parametrize(
    "unclear",
    [
        Wake(LOG, 3, 9, State.OPEN, None, b""),
        Wake(LOG, 3, 9, State.OPEN, 5, bytes(6)),
        wake(4, b"after a gap"),
        wake(3, b"", State.DELETED),
        wake(3, b"of another life", log=LOG + 1),
    ],
    ids=["no data", "a chunk ends inside", "a gap", "deleted", "a new log"],
)
def test_what_does_not_tell_enough_is_refused(unclear: Wake) -> None:
    assert not Recent(stream(tail=3)).add(unclear, 0.0)


def test_a_stream_that_expires_is_always_looked_up() -> None:
    assert not Recent(stream(lifetime=Lifetime(ttl_secs=60))).add(wake(0, b"x"), 0.0)


def test_wake_ups_that_a_look_has_overtaken_change_nothing() -> None:
    recent = Recent(stream(tail=10))
    assert recent.add(wake(5, b"12345"), 0.0)
    assert recent.stream.tail == 10
    assert recent.since(5) is None


def test_closing_without_data_is_news_for_those_at_the_end() -> None:
    recent = Recent(stream(tail=3))
    assert recent.add(wake(3, b"", State.CLOSED), 0.0)
    news = recent.since(3)
    assert news is not None
    assert news.view.is_empty
    assert news.view.at_closed_end
