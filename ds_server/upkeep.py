"""`ds-server stats`, `ds-server seal --all` and `ds-server sweep`."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import msgspec

from ds_server.assembly import Assembly, Pipes, assemble
from ds_server.attached import Tiers, attached_deployment
from ds_server.settings import Settings
from ds_server.sizes import size
from tiering.hot.sealing import SealingDesk
from tiering.recalls import EVER_MS
from tiering.stats import StreamStats, collect, total

_AT_ONCE = 32
_COLUMNS = ("stream", "hot", "sealed", "chunks", "parts", "oldest unsealed")


async def print_stats(settings: Settings, as_json: bool) -> None:
    async with attached_deployment(settings) as tiers:
        stats = await collect(SealingDesk(tiers.pipe))
    if as_json:
        print(msgspec.json.encode({"streams": stats, "total": total(stats)}).decode())
    else:
        print(_table([*stats, total(stats)]))


async def seal_everything(settings: Settings) -> None:
    async with attached_deployment(settings) as tiers:
        sealer = _assembled(settings, tiers).sealer
        names = {name async for name in SealingDesk(tiers.pipe).names()}
        slots = asyncio.Semaphore(_AT_ONCE)

        async def seal(name: str) -> None:
            async with slots:
                await sealer.seal_all(name)

        await asyncio.gather(*map(seal, sorted(names)))
    print(f"sealed {len(names)} streams")


async def sweep(settings: Settings) -> None:
    """What a running server does by itself from time to time."""
    async with attached_deployment(settings) as tiers:
        parts = _assembled(settings, tiers)
        await parts.sweep.once()
        while await parts.janitor.work():
            pass
        await _recall(parts)
    print("swept")


async def _recall(parts: Assembly) -> None:
    """Whatever waits to be tried again is tried now."""
    async with AsyncExitStack() as opened:
        for purger in parts.purgers:
            await purger.open()
            opened.push_async_callback(purger.close)
        await parts.recalls.work(EVER_MS)


def _assembled(settings: Settings, tiers: Tiers) -> Assembly:
    pipes = Pipes(tiers.pipe, tiers.pipe, tiers.pipe)
    return assemble(settings, tiers.store, pipes, is_durable=tiers.is_durable)


def _table(stats: Sequence[StreamStats]) -> str:
    rows = [_COLUMNS, *(_row(entry) for entry in stats)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS))]
    return "\n".join(_line(row, widths) for row in rows)


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = (cell for cell in row)
    cells = [cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True)]
    return "  ".join([first.ljust(widths[0]), *cells])


def _row(entry: StreamStats) -> tuple[str, ...]:
    age = entry.oldest_unsealed_secs
    return (
        entry.stream,
        size(entry.hot_bytes),
        size(entry.sealed_bytes),
        str(entry.chunks),
        str(entry.parts),
        "-" if age is None else f"{age:.1f} s",
    )
