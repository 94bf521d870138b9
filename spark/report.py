"""What a compaction did, for people."""

from spark.compact import Summary

_SHOWN = 20
_REASONS = {
    "moved": "somebody else changed that part of the history first",
    "there": "somebody else had done it already",
    "late": "what was begun had been given up",
    "missing": "the stream was deleted",
    "hidden": "the stream was deleted, and is there for its forks alone",
}


def report(summary: Summary) -> str:
    has = "would compact" if summary.is_dry_run else "compacted"
    streams = f"{summary.streams_compacted:,} of {summary.streams:,} streams"
    return "\n".join(
        [
            f"{has} {streams} in {summary.seconds:.1f} s",
            *_table(summary),
            f"requests that a cold replay saves: {summary.requests_saved:,}",
            f"chunks skipped because they are complete: {summary.chunks_complete:,}",
            *_lost(summary),
            *_damaged(summary),
        ]
    )


def _table(summary: Summary) -> list[str]:
    rows = [
        ("", "before", "after"),
        ("chunks", f"{summary.chunks_before:,}", f"{summary.chunks_after:,}"),
        ("parts", f"{summary.parts_before:,}", f"{summary.parts_after:,}"),
        ("bytes", f"{summary.bytes_before:,}", f"{summary.bytes_after:,}"),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return [f"  {a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]


def _lost(summary: Summary) -> list[str]:
    total = sum(summary.lost.values())
    lines = [f"chunks lost to somebody else: {total:,}"]
    return lines + [f"  {count:,}: {_REASONS[why]}" for why, count in sorted(summary.lost.items())]


def _damaged(summary: Summary) -> list[str]:
    if not summary.damaged:
        return []
    lines = [f"damaged, and left as it is: {len(summary.damaged):,}"]
    lines += [f"  {one.stream}: {one.reason}" for one in summary.damaged[:_SHOWN]]
    more = len(summary.damaged) - _SHOWN
    return [*lines, *([f"  ... and {more:,} more (--json shows all)"] if more > 0 else [])]
