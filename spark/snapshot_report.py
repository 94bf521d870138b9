"""What `ds-spark snapshot` did, for people."""

from spark.snapshot_summary import BROKEN, Line, Summary

_SHOWN = 20
_HEADINGS = ("stream", "messages", "keys", "bytes before", "bytes after", "bad", "outcome", "s")
_REASONS = {
    "another": "somebody else has published another snapshot at the same offset",
    "deleted": "the stream was deleted meanwhile",
    "moved": "objects were removed while they were read; the next run will do it",
    "newer": "a newer snapshot is in force",
}


def report(summary: Summary) -> str:
    lines = summary.lines
    return "\n".join([_first(summary), *_table(lines), *_explained(lines), *_bad(lines)])


def _first(summary: Summary) -> str:
    if summary.is_dry_run:
        due = sum(line.outcome == "due" for line in summary.lines)
        return f"due: {due:,} of {summary.looked_at:,} streams"
    done = f"{summary.published:,} of {summary.looked_at:,} streams"
    return f"published snapshots of {done} in {summary.seconds:.1f} s"


def _table(lines: list[Line]) -> list[str]:
    """The largest first, and all of them together."""
    if not lines:
        return []
    largest = sorted(lines, key=lambda line: -line.bytes_before)
    rows = [_HEADINGS, *map(_row, largest[:_SHOWN]), _total(lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    shown = [_aligned(row, widths) for row in rows]
    more = len(lines) - _SHOWN
    if more > 0:
        shown.insert(-1, f"  ... and {more:,} more (--json shows all)")
    return shown


def _aligned(row: tuple[str, ...], widths: list[int]) -> str:
    texts = (0, 6)
    cells = (
        cell.ljust(width) if column in texts else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(row, widths, strict=True))
    )
    return "  " + "  ".join(cells).rstrip()


def _row(line: Line) -> tuple[str, ...]:
    counts = (line.messages, line.keys, line.bytes_before, line.bytes_after, line.bad)
    return line.stream, *(f"{count:,}" for count in counts), line.outcome, f"{line.seconds:.1f}"


def _total(lines: list[Line]) -> tuple[str, ...]:
    total = Line("all", "", "")
    for line in lines:
        total.messages += line.messages
        total.keys += line.keys
        total.bytes_before += line.bytes_before
        total.bytes_after += line.bytes_after
        total.bad += line.bad
        total.seconds += line.seconds
    return _row(total)


def _explained(lines: list[Line]) -> list[str]:
    found = [
        f"{len(_of(lines, name)):,}: {why}" for name, why in _REASONS.items() if _of(lines, name)
    ]
    broken = [line for line in lines if line.outcome in BROKEN]
    found += [f"{line.stream}: {line.outcome}: {line.reason}" for line in broken[:_SHOWN]]
    more = len(broken) - _SHOWN
    return [*found, *([f"... and {more:,} more (--json shows all)"] if more > 0 else [])]


def _of(lines: list[Line], outcome: str) -> list[Line]:
    return [line for line in lines if line.outcome == outcome]


def _bad(lines: list[Line]) -> list[str]:
    samples = [(line, sample) for line in lines for sample in line.samples]
    return [
        f"bad: {line.stream} at {sample.offset}: {sample.reason}: {sample.beginning!r}"
        for line, sample in samples[:_SHOWN]
    ]
