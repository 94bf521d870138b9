"""Appends through the official JavaScript client, which joins what waits into batches."""

import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from loadtest.config import HERE
from loadtest.generator import fresh_names
from loadtest.measurement import Outcome, Run
from loadtest.memory import memory_figures

SCRIPT = HERE / "peers/client.mjs"


async def official_client(run: Run, *, size: int, at_once: int) -> Outcome:
    """The client runs in a process of its own; only what it counts is counted here."""
    [name] = fresh_names(1)
    url = f"http://127.0.0.1:{run.target.port}{run.target.stream(name)}"
    client = await _started(url, str(size), str(at_once), str(run.secs))
    await _line(client)
    cpu, began = run.cpu_seconds(), time.perf_counter()
    counted = json.loads(await _line(client))
    figures = _figures(counted, size)
    if cpu is not None:
        spent = (run.cpu_seconds() or 0.0) - cpu
        share = counted["secs"] / (time.perf_counter() - began)
        figures["cpu_us"] = spent * share / counted["count"] * 1e6
    await client.wait()
    return Outcome({**figures, **memory_figures(run.server)})


def _figures(counted: dict[str, Any], size: int) -> dict[str, float]:
    rate = counted["count"] / counted["secs"]
    return {
        "rate": rate,
        "write_mb": rate * size / 1e6,
        "p50_ms": counted["p50"],
        "p99_ms": counted["p99"],
    }


async def _started(*arguments: str) -> asyncio.subprocess.Process:
    """With node from this environment, where the machine has none."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    return await asyncio.create_subprocess_exec(
        "node",
        str(SCRIPT),
        *arguments,
        env={**os.environ, "PATH": path},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )


async def _line(client: asyncio.subprocess.Process) -> bytes:
    assert client.stdout is not None
    line = await client.stdout.readline()
    if not line:
        raise ConnectionError("the official client failed")
    return line
