"""Followers who stop reading: what they cost others, and what they get when they go on."""

from pathlib import Path

import aiohttp
import pytest
from support.client import TEXT, Stream, unique_name
from support.external_redis import ExternalRedis
from support.listener import Listener, message
from support.metrics import proportional_set_bytes
from support.producers import until
from support.server import RunningServer
from support.watched_worker import WatchedWorker

STALLED = 1000
HEALTHY = 1000
SHORT_BYTES = 100
LONG_BYTES = 8 * 1024
LONG_MESSAGES = 50
RECEIVED_BYTES = 16 * 1024
MOST_GROWTH_BYTES = 60 * 1000 * 1000
# In processor time of the server. Who costs as much when he is stalled as when he listens would
# make it 2, whose task is woken by every message more.
MOST_SLOWER = 1.6
TRIALS = 4
TRIAL_MESSAGES = 5

WITHOUT_END = {"DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "0"}


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("enough_files")
async def test_a_thousand_stalled_followers_slow_nobody_cost_little_and_miss_nothing(
    http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    settings = {"DS_STORAGE__DATA_DIR": str(tmp_path), **WITHOUT_END}
    with ExternalRedis() as redis, WatchedWorker.started(redis.url, settings) as worker:
        party = Party(http, worker)
        await party.gather()
        alone = await party.cost_of_a_message()
        await party.stall_some()
        before = proportional_set_bytes(worker.pid)
        for _ in range(LONG_MESSAGES):
            await party.tell(LONG_BYTES)
        beside_others = await party.cost_of_a_message()
        grown = proportional_set_bytes(worker.pid) - before
        assert all(one.next < party.told for one in party.stalled)
        for follower in party.stalled:
            follower.go_on()
        await until(lambda: party.is_heard_by(party.stalled), "what they had missed")
        # They are back among the others: what comes next reaches everyone.
        await party.tell(SHORT_BYTES)
        await until(lambda: party.is_heard_by(party.stalled), "the last message")
        party.disperse()
    print(f"{grown / 1e6:.0f} MB for {STALLED} stalled followers")
    print(f"a message: {alone * 1000:.1f} ms alone, {beside_others * 1000:.1f} ms beside others")
    assert grown < MOST_GROWTH_BYTES
    assert beside_others < alone * MOST_SLOWER


async def test_a_follower_who_reads_slowly_gets_long_events_whole(
    http: aiohttp.ClientSession,
) -> None:
    """Longer than what is held in memory for anyone, and read from storage piece by piece."""
    with RunningServer(env=WITHOUT_END) as server:
        stream = Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)
        await stream.create()
        long = "".join(f"{number}é\n" for number in range(150_000)).encode()
        for start in range(0, len(long), 500_001):
            assert (await stream.append(long[start : start + 500_001])).status == 204
        async with stream.follow("-1") as following:
            events = await following.until_caught_up()
    data = "".join(event.data for event in events if event.kind == "data")
    assert data.encode() == long


class Party:
    """Followers of one stream, half of whom will stop reading."""

    def __init__(self, http: aiohttp.ClientSession, worker: WatchedWorker) -> None:
        self._worker = worker
        self._path = f"/v1/stream/{unique_name()}"
        self._stream = Stream(http, worker.url + self._path, TEXT)
        self.told = 0
        self.healthy: list[Listener] = []
        self.stalled: list[Listener] = []

    async def gather(self) -> None:
        await self._stream.create()
        self.healthy = [await self._follower() for _ in range(HEALTHY)]
        await until(lambda: all(one.has_begun for one in self.healthy), "the followers")

    async def stall_some(self) -> None:
        """They begin where the stream ends, and have heard of nothing before."""
        self.stalled = [await self._follower(RECEIVED_BYTES) for _ in range(STALLED)]
        await until(lambda: all(one.has_begun for one in self.stalled), "those who will stall")
        for follower in self.stalled:
            follower.next = self.told
            follower.stall()

    async def cost_of_a_message(self) -> float:
        """To all who listen; the least of some trials, since what disturbs only adds to it."""
        costs = []
        for _ in range(TRIALS):
            self._worker.rounds()
            for _ in range(TRIAL_MESSAGES):
                await self.tell(SHORT_BYTES)
            costs.append(self._worker.rounds().total / TRIAL_MESSAGES)
        return min(costs)

    async def tell(self, size: int) -> None:
        assert (await self._stream.append(message(self.told, size))).status == 204
        self.told += 1
        await until(lambda: self.is_heard_by(self.healthy), f"message {self.told}")

    def is_heard_by(self, followers: list[Listener]) -> bool:
        assert not any(one.is_lost for one in followers)
        return all(one.next == self.told for one in followers)

    def disperse(self) -> None:
        for follower in (*self.healthy, *self.stalled):
            follower.close()

    async def _follower(self, received_bytes: int | None = None) -> Listener:
        target = f"{self._path}?offset=now&live=sse"
        return await Listener.open(self._worker.url, target, received_bytes=received_bytes)
