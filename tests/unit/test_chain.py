"""Which tokens a stream accepts, and what it says to the others."""

import pytest

from tiering.errors import Gone, Invalid
from tiering.offset import Offset
from tiering.stream import Ancestor, ContentType, Lifetime, Stream


def stream(*ancestors: Ancestor, tail: int = 100, earliest: int = 0) -> Stream:
    return Stream(
        name="s",
        log=7,
        ancestors=ancestors,
        content_type=ContentType("text/plain"),
        lifetime=Lifetime(),
        deadline_ms=None,
        closed=False,
        tail=tail,
        earliest=earliest,
        sealed=0,
        base=0,
        grid=4 * 1024 * 1024,
        now_ms=0,
    )


def test_a_token_of_the_own_log_is_its_position() -> None:
    assert stream().position_of(Offset(7, 100)) == 100


def test_a_token_beyond_the_tail_is_invalid() -> None:
    with pytest.raises(Invalid):
        stream().position_of(Offset(7, 101))


def test_a_token_of_an_unknown_log_is_gone_and_leads_to_the_beginning() -> None:
    with pytest.raises(Gone) as gone:
        stream().position_of(Offset(6, 5))
    assert gone.value.resume == Offset(7, 0)


def test_a_token_before_the_retained_range_is_gone_and_leads_to_it() -> None:
    with pytest.raises(Gone) as gone:
        stream(earliest=40).position_of(Offset(7, 39))
    assert gone.value.resume == Offset(7, 40)


@pytest.mark.parametrize("kind", ["fork", "recovery"])
def test_an_ancestors_token_up_to_the_border_is_an_alias(kind: str) -> None:
    forked = stream(Ancestor(5, 60, kind))  # type: ignore[arg-type]
    assert forked.position_of(Offset(5, 60)) == 60


def test_an_ancestors_token_beyond_the_border_of_a_fork_is_invalid() -> None:
    with pytest.raises(Invalid):
        stream(Ancestor(5, 60, "fork")).position_of(Offset(5, 61))


def test_an_ancestors_token_beyond_a_recovery_is_gone_and_leads_to_the_border() -> None:
    with pytest.raises(Gone) as gone:
        stream(Ancestor(5, 60, "recovery")).position_of(Offset(5, 61))
    assert gone.value.resume == Offset(7, 60)
