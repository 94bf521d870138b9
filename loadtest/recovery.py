"""How long `ds-server recover` takes, and how often it asks object storage.

`python -m loadtest.recovery --streams 10000` makes streams of two sealed pieces each (a chunk
and a part: two bodies, two indexes, a manifest), removes Redis, and measures the command.
"""

import argparse
import asyncio
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp

from loadtest import machine
from loadtest.scratch import Scratch, listening, scratch, timed

CHUNK_BYTES = 1024
CONNECTIONS = 32
SETTINGS = {
    "DS_TIERING__CHUNK_BYTES": str(CHUNK_BYTES),
    "DS_TIERING__SEAL_AGE_SECS": "86400",
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="loadtest.recovery", description=__doc__)
    parser.add_argument("--streams", type=int, default=10_000)
    parser.add_argument("--directory", type=Path, help="where the data shall lie")
    options = parser.parse_args()
    with scratch(SETTINGS, options.directory) as home:
        facts = machine.facts(home.home)
        _fill(home, options.streams)
        sealed = timed(lambda: home.command("seal", "--all"))
        _lose_redis(home)
        recovered = timed(lambda: home.command("recover", "--json"))
        checked = timed(lambda: home.command("fsck", "--json"))
    report, problems = json.loads(recovered[1]), json.loads(checked[1])["problems"]
    assert not problems, problems[:3]
    seconds = {"sealed": sealed[0], "recovered": recovered[0], "checked": checked[0]}
    print(_table(facts, report, seconds))


def _fill(home: Scratch, streams: int) -> None:
    with home.serving() as url:
        asyncio.run(_write(url, streams))


async def _write(url: str, streams: int) -> None:
    connector = aiohttp.TCPConnector(limit=CONNECTIONS)
    async with aiohttp.ClientSession(url, connector=connector) as http:
        await listening(http)
        numbers = iter(range(streams))
        await asyncio.gather(*(_write_some(http, numbers) for _ in range(CONNECTIONS)))


async def _write_some(http: aiohttp.ClientSession, numbers: Iterator[int]) -> None:
    headers = {"Content-Type": "text/plain", "Producer-Id": "p", "Producer-Epoch": "0"}
    for number in numbers:
        path = f"/v1/stream/recovery/{number:06d}"
        async with http.put(path, data=b"x" * CHUNK_BYTES, headers=headers) as answer:
            answer.raise_for_status()
        async with http.post(path, data=b"y" * 100, headers=headers | {"Producer-Seq": "0"}) as end:
            end.raise_for_status()


def _lose_redis(home: Scratch) -> None:
    shutil.rmtree(home.data / "redis")
    (home.data / "engine.json").unlink()


def _table(
    facts: Mapping[str, str], report: Mapping[str, Any], seconds: Mapping[str, float]
) -> str:
    asked = ", ".join(f"{count:,} {verb}" for verb, count in sorted(report["requests"].items()))
    recovered, objects = seconds["recovered"], report["objects"]
    return "\n".join(
        [
            *(f"- {name}: {value}" for name, value in facts.items()),
            "",
            "| streams | objects | `recover` s | streams per s | requests | for each stream"
            " | `fsck` s | `seal --all` s |",
            "|---:|---:|---:|---:|---|---:|---:|---:|",
            f"| {report['recovered']:,} | {objects:,} | {recovered:.1f}"
            f" | {report['recovered'] / recovered:,.0f} | {asked}"
            f" | {sum(report['requests'].values()) / report['recovered']:.2f}"
            f" | {seconds['checked']:.1f} | {seconds['sealed']:.1f} |",
        ]
    )


if __name__ == "__main__":
    main()
