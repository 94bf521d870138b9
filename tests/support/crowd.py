"""Clients that bootstrap and follow a stream all the while, whatever happens to it: none of them
may see a gap, a repeat, or a message twice."""

import asyncio
import json
import operator
import os
import random
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from support import steady_writer
from support.bootstrapped import Bootstrap, parse
from support.client import JSON, Answer, EventStream, Stream, unique_name
from support.producers import patient_session
from support.server import RunningServer
from support.steady_writer import LANES

CLIENTS = 50
APPENDS_PER_SECOND = 200
RETRY_SECS = 0.05
HEALING_SECS = 60
GRACE_SECS = 2
FIRE = {
    "DS_TIERING__SEAL_AGE_SECS": "0",
    "DS_TIERING__DELETE_GRACE_SECS": str(GRACE_SECS),
    "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "3",
}

State = list[int]
"""How many messages of each of the writer's lanes there were."""

Fold = Callable[[bytes], State]
"""What a snapshot stands for."""


class Unsteady(Exception):
    """The connection broke, or the server could not answer: the same may be asked again."""


@dataclass
class Scene:
    """Message number n of a lane is `{"lane": l, "n": n, "id": "l:n"}`. A server whose workers are
    not killed (`may_break`) breaks nothing off without a reason."""

    stream: Stream
    fold: Fold
    may_break: bool
    secs: float = 0
    written: int = 0
    mark: tuple[str, State] | None = None
    snapshots: int = 0
    breaks: int = 0
    last: State | None = None
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def note_break(self, *, has_reason: bool) -> None:
        assert self.may_break or has_reason, "the server broke off what it could have gone on with"
        self.breaks += 1

    async def ask(self, question: Callable[[], Awaitable[Answer]]) -> Answer:
        """Until there is an answer, where connections may break."""
        while True:
            try:
                return await steady(question())
            except Unsteady:
                assert self.may_break
                await asyncio.sleep(RETRY_SECS)

    async def write(self, server: RunningServer) -> None:
        name = self.stream.url.partition("/ds/")[2]
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, steady_writer.__file__, server.url, name, str(APPENDS_PER_SECOND)),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        )
        assert writer.stdin is not None
        assert writer.stdout is not None
        stopping = asyncio.create_task(self._stop(writer.stdin))
        try:
            async for line in writer.stdout:
                self.secs, self.written, *mark = json.loads(line)
                self.mark = (mark[0], mark[1])
            await stopping
            assert await writer.wait() == 0
        finally:
            stopping.cancel()
            if writer.returncode is None:  # It would ask a server that is gone for ever.
                writer.kill()
                await writer.wait()

    async def _stop(self, stdin: asyncio.StreamWriter) -> None:
        await self.is_over.wait()
        stdin.close()


async def steady(answer: Awaitable[Answer]) -> Answer:
    try:
        found = await answer
    except (aiohttp.ClientError, TimeoutError) as error:
        raise Unsteady from error
    if found.status == 503:
        raise Unsteady
    return found


@dataclass
class Client:
    """`known` are the messages that it knows of, folded or one by one."""

    scene: Scene
    is_restless: bool
    known: State = field(default_factory=lambda: [0] * LANES)
    offset: str = ""
    bootstraps: int = 0

    async def run(self) -> None:
        while not self.is_done:
            if await self.bootstraps_whole():
                await self.follow(until=random.uniform(1, 5) if self.is_restless else None)
            else:
                await asyncio.sleep(RETRY_SECS)

    @property
    def is_done(self) -> bool:
        return self.known == self.scene.last

    async def bootstraps_whole(self) -> bool:
        """Who is too slow for the time of grace may be cut off, and begins anew."""
        begin, stream = time.monotonic(), self.scene.stream
        try:
            answer = await steady(Stream(stream.http, f"{stream.url}/bootstrap", JSON).read())
        except Unsteady:
            self.scene.note_break(has_reason=time.monotonic() - begin >= GRACE_SECS)
            return False
        assert answer.status == 200, answer
        self.begin_with(parse(answer.headers, answer.body))
        return True

    def begin_with(self, found: Bootstrap) -> None:
        state = self.scene.fold(found.snapshot.body) if found.snapshot.body else [0] * LANES
        for message in found.messages:
            apply(state, json.loads(message))
        assert all(map(operator.ge, state, self.known)), "it has gone back in time"
        self.known, self.offset = state, found.next_offset
        self.bootstraps += 1

    def take(self, messages: list[dict[str, Any]], offset: str) -> None:
        for message in messages:
            apply(self.known, message)
        self.offset = offset

    async def follow(self, until: float | None) -> None:
        """Ends when it is time, or when it has fallen behind what is retained."""
        with suppress(TimeoutError):
            async with asyncio.timeout(until):
                while not self.is_done and await self.goes_on():
                    pass

    async def goes_on(self) -> bool:
        raise NotImplementedError


def apply(state: State, message: dict[str, Any]) -> None:
    lane, number = message["lane"], message["n"]
    assert message["id"] == f"{lane}:{number}"
    assert number == state[lane], f"{message} comes after {state}"
    state[lane] += 1


class LongPoller(Client):
    async def goes_on(self) -> bool:
        try:
            answer = await steady(self.scene.stream.long_poll(self.offset))
        except Unsteady:
            self.scene.note_break(has_reason=False)
            return True
        if answer.status == 410:
            return False
        assert answer.status in (200, 204), answer
        self.take(answer.json() if answer.status == 200 else [], answer.next_offset)
        return True


@dataclass
class Listener(Client):
    """Only who has fallen behind what is retained may be cut off."""

    cut_off_at: str = ""

    async def goes_on(self) -> bool:
        try:
            async with self.scene.stream.follow(self.offset) as events:
                is_behind = events.response.status == 410
                if self.cut_off_at == self.offset:
                    self.scene.note_break(has_reason=is_behind)
                if is_behind:
                    return False
                await self._listen(events)
        except (aiohttp.ClientError, TimeoutError):
            self.cut_off_at = self.offset
        return True

    async def _listen(self, events: EventStream) -> None:
        """What a control event has not confirmed will come again."""
        assert events.response.status == 200
        messages: list[dict[str, Any]] = []
        async for event in events:
            if event.kind == "data":
                messages += json.loads(event.data)
            else:
                self.take(messages, event.control["streamNextOffset"])
                messages = []
            if self.is_done:
                return


async def play(
    server: RunningServer,
    publish: Callable[[Scene], Awaitable[None]],
    trouble: Callable[[], Awaitable[None]],
    *,
    fold: Fold,
    may_break: bool,
    clients: int = CLIENTS,
) -> None:
    """`publish` ends when the scene is over."""
    async with patient_session() as http:
        bucket = Stream(http, f"{server.url}/ds/{unique_name()}")
        assert (await bucket.ask("PUT")).status == 201
        scene = Scene(Stream(http, f"{bucket.url}/stream", JSON), fold, may_break)
        assert (await scene.stream.create()).status == 201
        kinds = (LongPoller, Listener)
        crowd = [kinds[n % 2](scene, is_restless=n % 4 < 2) for n in range(clients)]
        async with asyncio.TaskGroup() as group:
            work = [group.create_task(one) for one in (scene.write(server), publish(scene))]
            following = [group.create_task(client.run()) for client in crowd]
            await trouble()
            scene.is_over.set()
            await asyncio.gather(*work)
            assert scene.mark is not None
            scene.last = scene.mark[1]
            await asyncio.wait_for(asyncio.gather(*following), HEALING_SECS)
        print(
            f"{scene.written} appends, {scene.written / scene.secs:.0f} a second of"
            f" {APPENDS_PER_SECOND} offered, {scene.snapshots} snapshots,"
            f" {sum(client.bootstraps for client in crowd)} bootstraps, {scene.breaks} breaks"
        )
        assert scene.snapshots > 1
        assert all(client.known == scene.last for client in crowd)
        assert sum(scene.last) == scene.written
