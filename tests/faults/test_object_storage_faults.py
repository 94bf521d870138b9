"""Object storage that fails in every way it can: appends go on, and nothing is lost."""

import random
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from support import object_servers, trial
from support.client import unique_name
from support.load import Load
from support.object_servers import ObjectServer
from support.s3_line import Fault, Hold, Line, answers, breaks_off_in_the_middle, passes

MiB = 1024 * 1024
Outage = Callable[[Line], AbstractAsyncContextManager[None]]


@pytest.fixture(scope="module")
def seaweedfs() -> Iterator[ObjectServer]:
    with object_servers.seaweedfs() as server:
        yield server


def standing(fault: Fault) -> Outage:
    @asynccontextmanager
    async def outage(line: Line) -> AsyncIterator[None]:
        line.standing = fault
        yield
        line.standing = passes

    return outage


@asynccontextmanager
async def refuses(line: Line) -> AsyncIterator[None]:
    line.refuse()
    yield
    await line.accept()


@asynccontextmanager
async def hangs(line: Line) -> AsyncIterator[None]:
    hold = Hold()
    async with standing(hold)(line):
        yield
    hold.release()


@pytest.mark.timeout(trial.TIMEOUT_SECS)
async def test_appends_go_on_while_object_storage_refuses_or_hangs(
    seaweedfs: ObjectServer, chance: random.Random
) -> None:
    await trial.at_once(
        refuses=appends_go_on(seaweedfs, refuses, chance),
        hangs=appends_go_on(seaweedfs, hangs, chance),
        fills_the_hot_tier=appends_stop_at_the_limit(seaweedfs, chance),
    )


@pytest.mark.timeout(trial.TIMEOUT_SECS)
async def test_appends_go_on_while_object_storage_answers_with_errors(
    seaweedfs: ObjectServer, chance: random.Random
) -> None:
    full = standing(answers(507, "XMinioStorageFull"))
    await trial.at_once(
        error=appends_go_on(seaweedfs, standing(answers(500, "InternalError")), chance),
        busy=appends_go_on(seaweedfs, standing(answers(503, "SlowDown")), chance),
        full=appends_go_on(seaweedfs, full, chance),
        breaks_off=appends_go_on(seaweedfs, standing(breaks_off_in_the_middle), chance),
    )


async def appends_go_on(storage: ObjectServer, outage: Outage, chance: random.Random) -> None:
    async def trouble(clients: Load) -> None:
        async with outage(line):
            await trial.for_a_while(clients.appends_go_on)

    async with Line(storage) as line, trial.server(settings(line)) as server:
        clients = await trial.endure(server, trouble, chance)
    assert not clients.refused_appends()


async def appends_stop_at_the_limit(storage: ObjectServer, chance: random.Random) -> None:
    """What cannot be stored is not taken, and what was taken is not lost."""

    async def trouble(clients: Load) -> None:
        async with refuses(line):
            await trial.for_a_while(clients.appends_are_refused)

    async with Line(storage) as line:
        env = settings(line) | {"DS_LIMITS__MAX_HOT_BYTES": str(5 * MiB)}
        async with trial.server(env) as server:
            await trial.endure(server, trouble, chance)


def settings(line: Line) -> dict[str, str]:
    return {
        **line.server.environment,
        "DS_OBJECTS__URL": f"s3://{line.server.bucket}/{unique_name()}",
        "DS_OBJECTS__ENDPOINT": line.endpoint,
        "AWS_REGION": "us-east-1",
    }
