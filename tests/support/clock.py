"""A wall clock that jumps at a word, for a server and everything that it starts.

The monotonic clock goes on as it does when a real one is set. Not for a server with a private
Redis: its parent looks for an engine, and `time.sleep` fails under libfaketime 0.9.10.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import lack, need

LIBRARIES = "**/faketime/libfaketimeMT.so.1"


class Clock:
    def __init__(self, folder: Path, library: Path) -> None:
        self._offset = folder / "offset"
        self._library = library
        self.jump_to(0)

    @property
    def environment(self) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DISABLE_SHM": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def jump_to(self, seconds: int) -> None:
        """So many seconds away from the true time."""
        draft = self._offset.with_suffix(".new")
        draft.write_text(f"{seconds:+d}\n")
        draft.replace(self._offset)


@contextmanager
def clock() -> Iterator[Clock]:
    need("faketime")
    library = next(Path("/usr/lib").glob(LIBRARIES), None) or lack("libfaketime is not found")
    with tempfile.TemporaryDirectory(prefix="ds-clock-") as folder:
        yield Clock(Path(folder), library)
