"""One stream that cannot be looked after, among others."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt, StreamError, Unavailable
from tiering.hot.sealing import Survey
from tiering.sweep import Sweep

NAMES = ["first", "broken", "last"]


def survey_of(name: str) -> Survey:
    return Survey(
        Manifest(1, name, log=1, content_type="text/plain", grid=9, created_ms=0, tail=0, sealed=0),
        base=0,
        cut=None,
        begins_chunk=True,
        oldest_ms=None,
        producers={},
        seq="",
        noted_manifest="",
        deadline_ms=None,
        lent=0,
        now_ms=0,
    )


class House:
    """Stands in for all that a sweep talks to; one stream fails in the place that is named."""

    def __init__(self, place: str, error: StreamError) -> None:
        self._place = place
        self._error = error
        self.looked_after: list[str] = []
        self.has_looked_around = False

    def _enter(self, place: str, name: str) -> None:
        if (place, name) == (self._place, "broken"):
            raise self._error

    async def names(self) -> AsyncIterator[str]:
        for name in NAMES:
            yield name

    async def survey(self, name: str) -> Survey:
        self._enter("survey", name)
        return survey_of(name)

    async def check_ties(self, survey: Survey) -> None:
        self._enter("check_ties", survey.name)

    async def check(self, survey: Survey) -> None:
        """What edges may have of it."""

    async def remind(self, survey: Survey) -> None:
        self.looked_after.append(survey.name)

    async def sweep(self) -> None:
        """Of buckets."""

    async def look_around(self) -> None:
        self.has_looked_around = True


async def sweep(house: Any) -> None:
    await Sweep(house, house, house, house, house, house, period_secs=1).once()


@pytest.mark.parametrize("place", ["survey", "check_ties"])
async def test_the_others_are_looked_after(place: str, caplog: pytest.LogCaptureFixture) -> None:
    house = House(place, Corrupt("it is damaged"))
    await sweep(house)
    assert house.looked_after == ["first", "last"]
    assert house.has_looked_around
    assert "broken cannot be looked after: it is damaged" in caplog.text


@pytest.mark.parametrize("place", ["survey", "check_ties"])
async def test_a_sweep_ends_when_storage_is_not_available(place: str) -> None:
    house = House(place, Unavailable("it is away"))
    with pytest.raises(Unavailable):
        await sweep(house)
    assert house.looked_after == ["first"]
