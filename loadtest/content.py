"""What long streams consist of: one line over and over, so that any piece can be checked.

Appends are whole lines. In whatever order they arrive, the stream reads the same.
"""

import hashlib

from loadtest.measurement import MESSAGE_BYTES

LINE = hashlib.sha512(b"a long stream").hexdigest()[: MESSAGE_BYTES - 1].encode() + b"\n"
BODY = LINE * (256 * 1024 // len(LINE))
MIB = 2**20

_EXPECTED = LINE * (2 * MIB // len(LINE))


def is_expected(piece: memoryview, position: int) -> bool:
    """Whether a stream holds this piece there. Costs no more than a comparison of memory."""
    return _EXPECTED.startswith(piece, position % len(LINE))
