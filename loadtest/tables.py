"""Rows of text as a table, and numbers as text. A row of one cell is a heading."""

from collections.abc import Iterator, Sequence

from loadtest.samples import Spread

Row = list[str]

TIMES = "\N{MULTIPLICATION SIGN}"
DASH = "\N{EN DASH}"


def aligned(table: Sequence[Row]) -> Iterator[str]:
    columns = zip(*(row for row in table if len(row) > 1), strict=True)
    widths = [max(map(len, column)) for column in columns]
    for row in table:
        yield _aligned_row(row, widths) if len(row) > 1 else f"\n{row[0]}"


def markdown(table: Sequence[Row]) -> Iterator[str]:
    head, *rows = table
    empty = [""] * (len(head) - 1)
    yield _markdown_row(head)
    yield f"|---|{'---:|' * len(empty)}"
    for row in rows:
        yield _markdown_row(row if len(row) > 1 else [f"**{row[0]}**", *empty])


def with_spread(spread: Spread | None) -> str:
    if spread is None:
        return DASH
    if spread.low == spread.high:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}{DASH}{number(spread.high)})"


def median(spread: Spread | None) -> str:
    return DASH if spread is None else number(spread.median)


def ratio(value: float | None) -> str:
    return DASH if value is None else number(value) + TIMES


def number(value: float) -> str:
    """With at least three digits that say something; counts are as they are."""
    if isinstance(value, int):
        return f"{value:,}"
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f}"


def _aligned_row(row: Row, widths: Sequence[int]) -> str:
    first, *others = zip(row, widths, strict=True)
    return "  ".join([first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in others)])


def _markdown_row(cells: Row) -> str:
    return f"| {' | '.join(cells)} |"
