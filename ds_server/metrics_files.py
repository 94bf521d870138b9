"""Where the workers of one server keep their counters, so that each can tell for all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# The name is prometheus-client's, which reads it when it is imported.
VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


@contextmanager
def shared_counters() -> Iterator[None]:
    """Processes started inside share their counters."""
    with tempfile.TemporaryDirectory(prefix="ds-metrics-") as folder:
        os.environ[VARIABLE] = folder
        yield


def forget(pid: int) -> None:
    """What a dead worker had under way is over; what it has counted still counts."""
    for file in Path(os.environ[VARIABLE]).glob(f"gauge_live*_{pid}.db"):
        file.unlink(missing_ok=True)
