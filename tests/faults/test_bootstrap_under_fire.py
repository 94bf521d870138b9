"""Clients bootstrap and follow a stream that is written, sealed, snapshotted and trimmed all the
while: none sees a gap, a repeat, or a message twice."""

import asyncio
import json
import os
import signal
from collections.abc import Awaitable, Callable

import pytest
from support.client import JSON, Stream
from support.crowd import FIRE, Scene, play
from support.server import RunningServer

SNAPSHOT_SECS = 1.0
FIRE_SECS = 20


async def publish(scene: Scene) -> None:
    """A snapshot holds how many messages of each lane there were."""
    while not scene.is_over.is_set():
        await asyncio.sleep(SNAPSHOT_SECS)
        if scene.mark is None:
            continue
        offset, state = scene.mark
        at = Stream(scene.stream.http, f"{scene.stream.url}/snapshot/{offset}", JSON)
        body = json.dumps(state).encode()
        answer = await scene.ask(lambda at=at, body=body: at.create(body))  # type: ignore[misc]
        assert answer.status == 204, answer
        scene.snapshots += 1


async def endure(
    server: RunningServer, trouble: Callable[[], Awaitable[None]], *, may_break: bool
) -> None:
    await play(server, publish, trouble, fold=json.loads, may_break=may_break)


@pytest.mark.timeout(180)
async def test_fifty_clients_bootstrap_and_follow_a_stream_that_never_rests() -> None:
    with RunningServer(workers=2, chunk_bytes=4096, env=FIRE) as server:
        await endure(server, lambda: asyncio.sleep(FIRE_SECS), may_break=False)
        assert "ERROR" not in server.log()


@pytest.mark.timeout(180)
async def test_fifty_clients_bootstrap_and_follow_while_workers_are_killed() -> None:
    with RunningServer(workers=2, chunk_bytes=4096, env=FIRE) as server:

        async def kill_workers() -> None:
            for pid in server.worker_pids():
                await asyncio.sleep(4)
                os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(4)

        await endure(server, kill_workers, may_break=True)
