"""The checker finds what it is there to find: violations planted in a history without any."""

from dataclasses import replace

import pytest
from support.checker import violations
from support.history import NEVER, Append, History, Outcome, Sequence, Sight

ACKNOWLEDGED, REFUSED, UNKNOWN = Outcome


def append(text: str, began: float, ended: float, **more: object) -> Append:
    units = tuple(f"{unit}\n".encode() for unit in text.split())
    return replace(Append(units, began, ended, ACKNOWLEDGED), **more)  # type: ignore[arg-type]


def sight(content: bytes, start: int, end: int, began: float, **more: object) -> Sight:
    seen = Sight("reader", began, began + 0.5, start, end, content[start:end])
    return replace(seen, **more)  # type: ignore[arg-type]


def whole(*appends: Append) -> bytes:
    return b"".join(unit for append in appends for unit in append.units)


@pytest.fixture
def history() -> History:
    """Two plain appends one after the other, a batch, two of a producer, one that got no answer."""
    first = append("a1", 0, 1, tail=3)
    second = append("b1", 2, 3, tail=6)
    batch = append("c1 c2 c3", 2.5, 4)
    produced = [
        append(f"p{n}", 4 + n, 5 + n, sequence=Sequence("p", epoch, seq))
        for n, (epoch, seq) in enumerate([(0, 0), (0, 1), (1, 0)])
    ]
    lost = append("u1", 2, NEVER, outcome=UNKNOWN)
    refused = append("r1", 2, 3, outcome=REFUSED)
    content = whole(first, second, batch, *produced, lost)
    sights = [
        sight(content, 0, 3, 1, is_tail=True),
        sight(content, 3, 15, 4, is_tail=True),
        sight(content, 6, 12, 9),
    ]
    appends = [first, second, batch, *produced, lost, refused]
    return History(b"\n", appends, sights, content)


def only(history: History, *words: str) -> None:
    """There is something to say, and all of it is about this."""
    said = violations(history)
    assert said
    for sentence in said:
        assert any(word in sentence for word in words), said


def test_a_history_that_can_have_happened_is_accepted(history: History) -> None:
    assert violations(history) == []


def test_an_append_without_an_answer_may_be_missing(history: History) -> None:
    history.content = history.content.replace(b"u1\n", b"")
    assert violations(history) == []


def test_a_stream_without_anything_is_accepted() -> None:
    assert violations(History(b"\n")) == []


def test_a_lost_acknowledged_append_is_found(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"p2\n", b"")
    only(history, "p2")


def test_a_repeated_append_is_found(history: History) -> None:
    history.content += b"b1\n"
    only(history, "b1")


def test_an_append_without_an_answer_that_is_there_twice_is_found(history: History) -> None:
    history.content += b"u1\n"
    only(history, "u1")


def test_data_of_a_refused_append_is_found(history: History) -> None:
    history.content += b"r1\n"
    only(history, "refused append b'r1")


def test_data_that_nobody_sent_is_found(history: History) -> None:
    history.content += b"x1\n"
    only(history, "nobody appended b'x1")


def test_a_torn_unit_is_found(history: History) -> None:
    history.content = history.content[:-1]
    only(history, "nobody appended b'u1'")


def test_half_a_batch_is_found(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"c2\n", b"")
    only(history, "c1")


def test_a_batch_with_something_in_between_is_found(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"c1\nc2\n", b"c1\nu1\nc2\n").removesuffix(b"u1\n")
    only(history, "c1\\n' is not in one piece")


def test_a_later_append_before_a_completed_one_is_found(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"a1\nb1\n", b"b1\na1\n")
    only(history, "overtaken", "tail 3")


def test_appends_at_the_same_time_may_have_either_order(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"b1\nc1\nc2\nc3\n", b"c1\nc2\nc3\nb1\n")
    history.appends[1] = replace(history.appends[1], tail=15)
    assert violations(history) == []


def test_an_acknowledgement_with_a_tail_before_its_data_is_found(history: History) -> None:
    history.appends[1] = replace(history.appends[1], tail=5)
    only(history, "acknowledged with the tail 5")


def test_a_reader_who_saw_another_order_is_found(history: History) -> None:
    history.sights.append(sight(b"b1\na1\n", 0, 6, 9))
    only(history, "something else for [0, 6)")


def test_a_reader_who_missed_something_is_found(history: History) -> None:
    history.sights.append(replace(sight(b"", 0, 0, 9), end=6, data=b"a1\n"))
    only(history, "something else for [0, 6)")


def test_a_reader_who_saw_what_is_not_there_in_the_end_is_found(history: History) -> None:
    end = len(history.content)
    history.sights.append(Sight("reader", 9, 10, end, end + 3, b"z1\n"))
    only(history, "something else")


def test_a_tail_before_an_acknowledged_append_is_found(history: History) -> None:
    history.sights.append(sight(history.content, 0, 3, 3.1, is_tail=True))
    only(history, "a tail of the past, 3")


def test_a_tail_before_what_another_reader_saw_is_found(history: History) -> None:
    end = len(history.content)
    history.sights.append(sight(history.content, 0, end, 8))
    history.sights.append(sight(history.content, 0, end - 3, 9, is_tail=True))
    only(history, f"a tail of the past, {end - 3}")


def test_a_read_that_does_not_reach_the_tail_may_be_short(history: History) -> None:
    history.sights.append(sight(history.content, 0, 3, 9))
    assert violations(history) == []


def test_a_tail_read_while_an_append_is_under_way_may_be_without_it(history: History) -> None:
    history.sights.append(sight(history.content, 0, 3, 2.9, is_tail=True))
    assert violations(history) == []


@pytest.mark.parametrize(
    "changed",
    [Sequence("p", 0, 2), Sequence("p", 0, 0), Sequence("p", 1, 1)],
    ids=["gap", "repeat", "epoch that does not begin"],
)
def test_a_producer_out_of_sequence_is_found(history: History, changed: Sequence) -> None:
    history.appends[4] = replace(history.appends[4], sequence=changed)
    only(history, "p1", "p2")


def test_a_producer_whose_order_was_turned_round_is_found(history: History) -> None:
    history.sights.clear()
    history.content = history.content.replace(b"p0\np1\n", b"p1\np0\n")
    only(history, "p0", "p1", "p2")


def test_an_old_epoch_after_a_new_one_is_found(history: History) -> None:
    history.appends.append(append("p3", 9, 10, sequence=Sequence("p", 0, 2)))
    history.content += b"p3\n"
    only(history, "p3")
