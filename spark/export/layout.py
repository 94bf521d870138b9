"""What files and folders of an export are called.

The folder of a stream is named after it, but is not its name: Spark reads `%C3%BC` as two
characters, a number as a number, and a file system takes 255 bytes. The column `stream` in the
files is the name.
"""

import re
from datetime import UTC, datetime, timedelta
from hashlib import blake2b

from tiering.cold.keys import segment
from tiering.offset import Offset

STREAM = "stream_dir"
DAY = "day"
MARK = "^"
"""Stands in no encoded name, so what was cut is never the folder of another stream."""

DAY_US = 86_400_000_000

_LONGEST = 240
_DIGEST_BYTES = 16
_PART_OF_AN_ESCAPE = re.compile(r"%[0-9A-F]?\Z")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def path_of(name: str, day: int, start: Offset, end: int) -> str:
    """Of a file, within the directory. `day` counts from 1970. No two files begin at the same
    place of a log."""
    date = (_EPOCH + timedelta(days=day)).date().isoformat()
    return f"{STREAM}={_folder(name)}/{DAY}={date}/{start}-{end:016d}.parquet"


def _folder(name: str) -> str:
    encoded = segment(name)
    if len(encoded) <= _LONGEST:
        return encoded
    digest = blake2b(name.encode(), digest_size=_DIGEST_BYTES).hexdigest()
    head = encoded[: _LONGEST - len(MARK) - len(digest)]
    return f"{_PART_OF_AN_ESCAPE.sub('', head)}{MARK}{digest}"
