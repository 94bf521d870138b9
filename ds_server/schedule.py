"""What the kernel says of the time that a thread got."""

import os

_FILE = "/proc/thread-self/schedstat"
_NANO = 1e-9


class Schedule:
    """Of the thread that makes it. Linux only; elsewhere nobody is ever seen waiting."""

    def __init__(self) -> None:
        try:
            self._file: int | None = os.open(_FILE, os.O_RDONLY)
        except OSError:
            self._file = None

    def waited(self) -> float:
        """Seconds in which the thread was ready to run and others had the processors."""
        if self._file is None:
            return 0.0
        return int(os.pread(self._file, 100, 0).split()[1]) * _NANO

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
