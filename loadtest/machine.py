"""What one must know of a machine to read figures made on it."""

import datetime
import os
import platform
from pathlib import Path


def facts(scratch: Path) -> dict[str, str]:
    return {
        "date": datetime.date.today().isoformat(),
        "processor": f"{len(os.sched_getaffinity(0))} cores, {_processor()}",
        "memory": f"{_memory_gib():.0f} GiB",
        "kernel": f"{platform.system()} {platform.release()}",
        "data on": _filesystem(scratch),
        "Python": platform.python_version(),
        "load at start": f"{os.getloadavg()[0]:.1f} (1 minute)",
    }


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    pages: int = os.sysconf("SC_PHYS_PAGES")
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**30


def _filesystem(folder: Path) -> str:
    """Its type only: whether an fsync there costs anything."""
    mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    holding = [
        (len(place), kind) for place, kind in mounts if folder.resolve().is_relative_to(place)
    ]
    return max(holding)[1]
