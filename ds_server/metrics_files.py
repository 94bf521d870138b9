"""Where the workers of one server keep their counters, so that each can tell for all."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PREFIX = "ds-metrics-"
# The name is prometheus-client's, which reads it when it is imported.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def shared_counters() -> Iterator[None]:
    """Processes started inside share their counters."""
    _remove_what_the_killed_left()
    with tempfile.TemporaryDirectory(prefix=f"{_PREFIX}{os.getpid()}-") as folder:
        os.environ[VARIABLE] = folder
        yield


def _remove_what_the_killed_left() -> None:
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*-*"):
        pid = folder.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not _is_alive(int(pid)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def forget(pid: int) -> None:
    """What a dead worker had under way is over; what it has counted still counts."""
    for file in Path(os.environ[VARIABLE]).glob(f"gauge_live*_{pid}.db"):
        file.unlink(missing_ok=True)
