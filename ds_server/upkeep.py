"""`ds-server stats` and `ds-server seal --all`."""

from collections.abc import Sequence

import msgspec

from ds_server.attached import attached_pipe
from ds_server.objects import object_store
from ds_server.settings import Settings
from tiering.cold.sealer import Sealer
from tiering.deployment import agree
from tiering.hot.pressure import Pressure
from tiering.hot.sealing import SealingDesk
from tiering.stats import StreamStats, collect, total

_COLUMNS = ("stream", "hot", "sealed", "chunks", "parts", "oldest unsealed")


async def print_stats(settings: Settings, as_json: bool) -> None:
    async with attached_pipe(settings) as pipe:
        stats = await collect(SealingDesk(pipe))
    if as_json:
        print(msgspec.json.encode({"streams": stats, "total": total(stats)}).decode())
    else:
        print(_table([*stats, total(stats)]))


async def seal_everything(settings: Settings) -> None:
    async with attached_pipe(settings) as pipe, object_store(settings) as store:
        await store.check()
        await agree(pipe, store)
        desk = SealingDesk(pipe)
        sealer = Sealer(desk, store, Pressure(pipe, settings.limits.max_hot_bytes), 0)
        names = {name async for name in desk.names()}
        for name in sorted(names):
            await sealer.seal_all(name)
    print(f"sealed {len(names)} streams")


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
        _size(entry.hot_bytes),
        _size(entry.sealed_bytes),
        str(entry.chunks),
        str(entry.parts),
        "-" if age is None else f"{age:.1f} s",
    )


def _size(count: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1024
    return f"{count:.1f} TiB"
