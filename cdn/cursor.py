"""Cursors: numbers that change the URL of live reads as time goes on."""

from zlib import crc32

EPOCH_SECS = 1_728_432_000
INTERVAL_SECS = 20
_LONGEST_JITTER_SECS = 3600
_MOST_DIGITS = 15


def cursor(now_secs: float, stream: str, theirs: str | None) -> int:
    """The current interval, or a number above the client's when it is there already.

    The jump follows from stream and cursor, so that all who ask the same get the same.
    """
    current = int(now_secs - EPOCH_SECS) // INTERVAL_SECS
    known = _parse(theirs)
    if known is None or known < current:
        return current
    return known + _jump(stream, known)


def _parse(text: str | None) -> int | None:
    if text and text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS:
        return int(text)
    return None


def _jump(stream: str, known: int) -> int:
    jitter_secs = 1 + crc32(f"{stream}:{known}".encode()) % _LONGEST_JITTER_SECS
    return max(1, jitter_secs // INTERVAL_SECS)
