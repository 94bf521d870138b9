"""How many CPUs this process may use."""

import os
from pathlib import Path

CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def usable_cpus(quota_file: Path = CGROUP_QUOTA) -> int:
    return max(1, min(_scheduled_cpus(), _quota(quota_file)))


def _scheduled_cpus() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _quota(quota_file: Path) -> int:
    """A container with `--cpus=2` on a host of 64 still sees 64; its quota tells."""
    no_quota = _scheduled_cpus()
    try:
        micros, period = quota_file.read_text().split()
        return no_quota if micros == "max" else -(-int(micros) // int(period))
    except (OSError, ValueError):
        return no_quota
