"""A disk without a free byte under the objects, and under the private Redis's append-only file."""

import asyncio
import random

import pytest
from support import trial
from support.load import Load
from support.small_disk import small_disk

ROOMY_MEBIBYTES = 256


@pytest.mark.timeout(trial.TIMEOUT_SECS)
async def test_nothing_is_lost_when_a_disk_is_full(chance: random.Random) -> None:
    await trial.at_once(objects=objects(chance), append_only_file=append_only_file(chance))


async def objects(chance: random.Random) -> None:
    """Appends go on: what cannot be sealed waits in Redis."""

    async def trouble(clients: Load) -> None:
        disk.fill()
        await trial.for_a_while(clients.appends_go_on)
        disk.empty()

    with small_disk(ROOMY_MEBIBYTES) as disk:
        place = (disk.path / "objects").as_uri()
        async with trial.server({"DS_OBJECTS__URL": place}) as server:
            clients = await trial.endure(server, trouble, chance)
    assert not clients.refused_appends()


async def append_only_file(chance: random.Random) -> None:
    """Redis ends at the first write that fails, and again whenever it is back."""

    async def keep_full() -> None:
        disk.fill()
        await asyncio.sleep(0.1)

    async def trouble(clients: Load) -> None:
        await trial.for_a_while(keep_full)
        disk.empty()

    with small_disk(ROOMY_MEBIBYTES) as disk:
        async with trial.server(data_dir=disk.path / "data") as server:
            clients = await trial.endure(server, trouble, chance)
    assert clients.refused_appends()
