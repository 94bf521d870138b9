"""File locks that end with the last process that holds them, however it ends."""

import fcntl
import os
from pathlib import Path


def try_lock(path: Path) -> int | None:
    """A descriptor that holds the lock, or None while another process does.

    The lock belongs to the open file: a child that inherits the descriptor keeps it.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def is_locked(path: Path) -> bool:
    descriptor = try_lock(path)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None
