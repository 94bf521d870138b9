"""A process that appends to a stream at a steady pace, and says how far it has come.

Several appends are under way at a time, so that the pace does not depend on how long each takes:
each lane writes `{"lane": l, "n": n, "id": "l:n"}` one after the other, as a producer of its own.
Its own process, because the clients of a test would take its time away. It ends with its input.

Each line it prints is a list: seconds since it began, appends so far, an offset, and how many
appends of each lane lie before that offset.
"""

import asyncio
import itertools
import json
import sys
from collections import deque
from collections.abc import Iterator

from support.connection import Answer, Broken, Connection

LANES = 8
RETRY_SECS = 0.05
TELL_SECS = 0.1


class Lane:
    def __init__(self, url: str, target: str, number: int) -> None:
        self._url = url
        self._target = target
        self._number = number
        self._connection: Connection | None = None
        self._told = 0
        self._ends: deque[tuple[str, str]] = deque()
        self.written = 0
        self.last = ""

    async def append(self) -> None:
        """Until there is an answer: the sequence number makes it one append. A second answer
        tells where the stream ends by then, so that the append ends there or before."""
        answer, attempts = None, 0
        while answer is None:
            answer = await self._attempt()
            attempts += 1
        assert answer.status in (200, 204), answer.body
        end = answer["Stream-Next-Offset"] or ""
        self._ends.append((end if attempts == 1 else self.last, end))
        self.written += 1
        self.last = end

    async def _attempt(self) -> Answer | None:
        try:
            connection = self._connection = self._connection or await Connection.open(self._url)
            answer = await connection.ask(
                *("POST", self._target, self._message()),
                content_type="application/json",
                producer_id=f"lane {self._number}",
                producer_epoch=0,
                producer_seq=self.written,
            )
            if answer.status < 500:
                return answer
        except (Broken, OSError):
            self._connection = None
        await asyncio.sleep(RETRY_SECS)
        return None

    def _message(self) -> bytes:
        message = {"lane": self._number, "n": self.written, "id": f"{self._number}:{self.written}"}
        return json.dumps(message).encode()

    def is_unsure_at(self, offset: str) -> bool:
        return any(low < offset < high for low, high in self._ends)

    def before(self, offset: str) -> int:
        """How many appends lie before it; never asked again about an earlier one."""
        while self._ends and self._ends[0][1] <= offset:
            self._ends.popleft()
            self._told += 1
        return self._told


class Writer:
    def __init__(self, url: str, stream: str, per_second: float) -> None:
        self._lanes = [Lane(url, f"/ds/{stream}", number) for number in range(LANES)]
        self._pace = per_second
        self._is_over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._begin = self._loop.time()

    async def run(self) -> None:
        turns = itertools.count()
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(self._write(lane, turns))
            telling = group.create_task(self._tell())
            await self._loop.run_in_executor(None, sys.stdin.read)
            self._is_over.set()
            telling.cancel()
        self._say(max(lane.last for lane in self._lanes))

    async def _write(self, lane: Lane, turns: Iterator[int]) -> None:
        """Who comes late does not wait."""
        for turn in turns:
            left = self._begin + turn / self._pace - self._loop.time()
            if left > 0:
                await asyncio.sleep(left)
            if self._is_over.is_set():
                return
            await lane.append()

    async def _tell(self) -> None:
        """What was appended before the earliest of the lanes' ends is known to all of them."""
        while True:
            await asyncio.sleep(TELL_SECS)
            offset = min(lane.last for lane in self._lanes)
            if offset and not any(lane.is_unsure_at(offset) for lane in self._lanes):
                self._say(offset)

    def _say(self, offset: str) -> None:
        secs = self._loop.time() - self._begin
        written = sum(lane.written for lane in self._lanes)
        counts = [lane.before(offset) for lane in self._lanes]
        print(json.dumps([secs, written, offset, counts]), flush=True)


async def main(url: str, stream: str, per_second: str) -> None:
    await Writer(url, stream, float(per_second)).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
