"""What a server tells of itself."""

import re
from pathlib import Path

import aiohttp
from support.server import RunningServer

SAMPLE = re.compile(r"^([a-z_]+)(?:\{[^}]*\})? ([0-9.e+-]+)$", re.MULTILINE)


async def metrics(http: aiohttp.ClientSession, server: RunningServer) -> dict[str, float]:
    """Values by name; of those with labels the sum."""
    async with http.get(f"{server.url}/metrics") as response:
        found = SAMPLE.findall(await response.text())
    totals: dict[str, float] = {}
    for name, value in found:
        totals[name] = totals.get(name, 0.0) + float(value)
    return totals


def memory_bytes(server: RunningServer) -> int:
    """Of all processes of the server without Redis; what they share is counted once."""
    pids = [server.pid, *server.worker_pids()]
    return sum(proportional_set_bytes(pid) for pid in pids)


def open_files(server: RunningServer) -> int:
    return sum(len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in server.worker_pids())


def proportional_set_bytes(pid: int) -> int:
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    match = re.search(r"^Pss: +([0-9]+) kB$", rollup, re.MULTILINE)
    assert match is not None
    return int(match[1]) * 1024
