"""How long to wait before something that ended is started again."""

import pytest

from ds_server import backoff
from ds_server.backoff import Backoff


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(backoff.time, "monotonic", lambda: now[0])
    return now


def test_short_lives_make_longer_and_longer_waits(clock: list[float]) -> None:
    waits = Backoff()
    assert [waits.next_delay() for _ in range(9)] == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5]


def test_a_healthy_life_is_followed_by_an_immediate_start(clock: list[float]) -> None:
    waits = Backoff()
    for _ in range(5):
        waits.next_delay()
    waits.began()
    clock[0] += backoff.HEALTHY_AFTER
    assert waits.next_delay() == 0
