"""Messages of other days: what the clock of Redis would have said."""

import struct
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import msgspec

from tiering.cold import index as indexes


def redate(objects: Path, time_of: Callable[[int], int]) -> None:
    """Gives every sealed append the time that belongs to its position."""
    for path in (objects / "index").rglob("*"):
        if not path.is_file() or "^metadata" in path.name:
            continue
        index = indexes.decode(path.read_bytes(), str(path))
        starts = [start for start, _ in pairwise([index.start, *index.append_ends()])]
        packed = struct.pack(f"<{len(starts)}Q", *map(time_of, starts))
        path.chmod(0o600)
        path.write_bytes(msgspec.structs.replace(index, append_times_ms=packed).encode())
