"""Range requests, as far as one range goes (RFC 9110, section 14)."""

import re

from multidict import MultiMapping

_RANGE = re.compile(r"bytes=(?P<first>[0-9]*)-(?P<last>[0-9]*)", re.ASCII | re.IGNORECASE)
_MOST_DIGITS = 18
_BEYOND_ALL = 10**_MOST_DIGITS


class Unsatisfiable(Exception):
    """The range begins at or beyond the end."""


def wanted(given: MultiMapping[str], size: int, etag: str) -> tuple[int, int] | None:
    """The half-open range that is asked for; None for everything: also when the range is not
    understood, or is of another version."""
    text, condition = given.get("Range"), given.get("If-Range")
    match = _RANGE.fullmatch(text.replace(" ", "")) if text else None
    if match is None or (condition is not None and condition != etag):
        return None
    first, last = match["first"], match["last"]
    if not first:
        return _suffix(last, size)
    start, stop = _number(first), _number(last) + 1 if last else size
    if last and stop <= start:
        return None
    if start >= size:
        raise Unsatisfiable
    return start, min(size, stop)


def _suffix(length: str, size: int) -> tuple[int, int] | None:
    if not length:
        return None
    if _number(length) == 0 or size == 0:
        raise Unsatisfiable
    return max(0, size - _number(length)), size


def _number(digits: str) -> int:
    """No object is as large as the largest it tells apart; more digits would cost time."""
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= _MOST_DIGITS else _BEYOND_ALL
