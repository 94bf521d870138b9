"""What buckets and bootstrap cost.

`python -m loadtest.extensions` makes 100,000 streams in a bucket and lists them, and bootstraps a
stream of 1,000,000 messages of 100 bytes.
"""

import argparse
import asyncio
import statistics
import time
from collections.abc import Iterator
from dataclasses import dataclass

import aiohttp

from loadtest import machine
from loadtest.scratch import Scratch, listening, scratch

MIB = 1024 * 1024
CONNECTIONS = 32
BUCKET = "/ds/many-streams"
STREAM = "/ds/bootstrap/stream"
SETTINGS = {"DS_TIERING__SEAL_AGE_SECS": "1"}
BATCH = 10_000
MESSAGE = b'"' + b"m" * 97 + b'"'
PAGES = 20
RUNS = 5


@dataclass(frozen=True, slots=True)
class Listing:
    created_secs: float
    redis_bytes_each: float
    page_secs: list[float]


@dataclass(frozen=True, slots=True)
class Bootstrap:
    body_bytes: int
    secs: list[float]
    server_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="loadtest.extensions", description=__doc__)
    parser.add_argument("--streams", type=int, default=100_000)
    parser.add_argument("--messages", type=int, default=1_000_000)
    options = parser.parse_args()
    with scratch(SETTINGS) as home:
        facts = machine.facts(home.home)
        with home.serving() as url:
            bootstrap = asyncio.run(_bootstrap(home, url, options.messages))
        with home.serving() as url:
            listing = asyncio.run(_list(home, url, options.streams))
    print("\n".join(f"- {name}: {value}" for name, value in facts.items()))
    print(_table(listing, bootstrap, options.streams, options.messages))


async def _list(home: Scratch, url: str, streams: int) -> Listing:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(url, connector=connector) as http:
        await listening(http)
        await _put(http, BUCKET)
        before, begin = _redis_bytes(home), time.monotonic()
        numbers = iter(range(streams))

        async def some(numbers: Iterator[int]) -> None:
            for number in numbers:
                await _put(http, f"{BUCKET}/stream-{number:08d}")

        await asyncio.gather(*(some(numbers) for _ in range(CONNECTIONS)))
        created = time.monotonic() - begin
        each = (_redis_bytes(home) - before) / streams
        await _page(http, "")
        pages, after = [], ""
        for _ in range(PAGES):
            begin = time.monotonic()
            after = await _page(http, after)
            pages.append(time.monotonic() - begin)
    return Listing(created, each, pages)


async def _put(http: aiohttp.ClientSession, path: str) -> None:
    async with http.put(path) as answer:
        assert answer.status == 201, await answer.text()


async def _page(http: aiohttp.ClientSession, after: str) -> str:
    async with http.get(f"{BUCKET}/streams", params={"after": after} if after else {}) as answer:
        page = await answer.json()
    return str(page["next_cursor"] or "")


async def _bootstrap(home: Scratch, url: str, messages: int) -> Bootstrap:
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(url, timeout=timeout) as http:
        await listening(http)
        await _put(http, "/ds/bootstrap")
        kind = {"Content-Type": "application/json"}
        async with http.put(STREAM, headers=kind) as answer:
            assert answer.status == 201, await answer.text()
        for _ in range(messages // BATCH):
            body = b"[" + b",".join([MESSAGE] * BATCH) + b"]"
            async with http.post(STREAM, data=body, headers=kind) as answer:
                assert answer.status == 204, await answer.text()
        await asyncio.to_thread(home.command, "seal", "--all")
        found = [await _read(home, http, messages) for _ in range(RUNS)]
    size, _, memory = found[0]
    return Bootstrap(size, [secs for _, secs, _ in found], max(memory, *(m for *_, m in found)))


async def _read(
    home: Scratch, http: aiohttp.ClientSession, messages: int
) -> tuple[int, float, int]:
    """How much, how long, and the server's memory in the middle of it."""
    begin, size, parts, memory, held = time.monotonic(), 0, 0, 0, b""
    async with http.get(f"{STREAM}/bootstrap") as answer:
        boundary = b"\r\n--" + answer.headers["Content-Type"].rpartition("=")[2].encode()
        async for piece in answer.content.iter_any():
            size += len(piece)
            text = held + piece
            parts += text.count(boundary)
            held = text[-len(boundary) + 1 :]
            if not memory and size > 64 * MIB:
                memory = _memory_bytes(home)
    assert parts == messages + 1, parts
    return size, time.monotonic() - begin, memory or _memory_bytes(home)


def _redis_bytes(home: Scratch) -> float:
    return home.processes.memory().store * 1e6


def _memory_bytes(home: Scratch) -> int:
    memory = home.processes.memory()
    return int((memory.server + memory.store) * 1e6)


def _table(listing: Listing, bootstrap: Bootstrap, streams: int, messages: int) -> str:
    pages = sorted(1000 * secs for secs in listing.page_secs)
    rates = sorted(bootstrap.body_bytes / MIB / secs for secs in bootstrap.secs)
    rows = {
        f"{streams:,} streams made in a bucket in": f"{listing.created_secs:.1f} s",
        "Redis memory for each": f"{listing.redis_bytes_each:.0f} bytes",
        "a page of 1,000 (median, fastest to slowest)": (
            f"{statistics.median(pages):.0f} ms ({pages[0]:.0f} to {pages[-1]:.0f})"
        ),
        f"bootstrap of {messages:,} messages of 100 bytes": (
            f"{statistics.median(rates):.0f} MB/s ({rates[0]:.0f} to {rates[-1]:.0f})"
        ),
        "of which the stream itself": f"{messages * 100 / MIB:.0f} of"
        f" {bootstrap.body_bytes / MIB:.0f} MiB",
        "memory of server and Redis meanwhile": f"{bootstrap.server_bytes / 1e6:.0f} MB",
    }
    return "\n".join(["", "| | |", "|---|---:|", *(f"| {k} | {v} |" for k, v in rows.items())])


if __name__ == "__main__":
    main()
