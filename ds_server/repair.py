"""`ds-server recover` and `ds-server fsck`."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import msgspec
from tqdm import tqdm

from ds_server.attached import attached, attached_deployment
from ds_server.settings import Settings
from ds_server.sizes import size
from tiering import fsck as checking
from tiering import recovery
from tiering.losses import Missing

# 1 and 2 say that the command could not do its work.
INCOMPLETE_EXIT_CODE = 3
_SHOWN = 20


async def recover(settings: Settings, as_json: bool) -> int:
    """0 when all that object storage knows of is back, 3 when something is known to be missing."""
    async with attached(settings) as tiers:
        work = recovery.Recovery(tiers.pipe, tiers.store, is_durable=tiers.is_durable)
        with _progress("recovering", as_json) as progress:
            report = await work.run(progress)
        print(_json(report) if as_json else _recovered(report), flush=True)
        await work.was_told()
    return 0 if report.is_complete else INCOMPLETE_EXIT_CODE


async def fsck(settings: Settings, stream: str | None, as_json: bool) -> int:
    """0 when everything is as it was written, 3 when not."""
    async with attached_deployment(settings) as tiers:
        is_read_by_edges = settings.edge.secret is not None
        work = checking.Fsck(tiers.pipe, tiers.store, is_read_by_edges=is_read_by_edges)
        with _progress("checking", as_json) as progress:
            report = await work.run(stream, progress)
    print(_json(report) if as_json else _checked(report))
    return INCOMPLETE_EXIT_CODE if report.problems else 0


@contextmanager
def _progress(what: str, as_json: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar on the terminal of a person, nothing elsewhere."""
    hidden = as_json or not sys.stderr.isatty()
    with tqdm(desc=what, unit=" streams", disable=hidden, leave=False) as bar:

        def show(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        yield show


def _json(report: msgspec.Struct) -> str:
    return msgspec.json.encode(report).decode()


def _recovered(report: recovery.Report) -> str:
    lines = [
        f"recovered {report.recovered} streams, {size(report.recovered_bytes)},"
        f" from {report.objects} objects",
        f"  {report.in_new_logs} go on in a new log, {report.closed} were closed and are whole,"
        f" {report.empty} are empty",
        f"  {report.deleted} were deleted or have expired, and stay so",
        f"  object storage was asked {sum(report.requests.values())} times",
    ]
    if report.already_there:
        lines.append(f"  {report.already_there} had been recovered before")
    lines += _some("known to be missing", [_loss(lost) for lost in report.missing])
    lines += _some("damaged", report.damaged)
    lines += _some("left alone, because nothing says what it is", report.left_alone)
    return "\n".join(lines)


def _loss(lost: Missing) -> str:
    return f"{lost.stream}: {lost.lost_bytes} bytes behind {lost.recovered_bytes} ({lost.reason})"


def _checked(report: checking.Report) -> str:
    summary = (
        f"checked {report.streams} streams, {report.objects} objects,"
        f" {size(report.checked_bytes)} of stored bodies"
    )
    leftovers = f"  {report.leftovers} objects wait to be removed, or are not used any more"
    problems = [f"{one.kind}: {one.stream}: {one.key} {one.what}" for one in report.problems]
    lines = [summary, *([leftovers] if report.leftovers else [])]
    return "\n".join(
        [*lines, *(_some("problems", problems) or ["everything is as it was written"])]
    )


def _some(heading: str, entries: list[str]) -> list[str]:
    if not entries:
        return []
    more = len(entries) - _SHOWN
    rest = [f"  ... and {more} more (--json shows all)"] if more > 0 else []
    return [f"{heading}: {len(entries)}", *(f"  {entry}" for entry in entries[:_SHOWN]), *rest]
