"""What the kernel says about a server's processes. Linux only; elsewhere nothing is known."""

import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
STORES = ("redis-server", "valkey-server")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

# Positions in /proc/PID/stat after the name, which may itself contain spaces.
PARENT, TIMES = 1, slice(11, 15)


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes (10⁶) of proportional set size: pages that are shared count once in all."""

    server: float
    store: float


@dataclass(frozen=True, slots=True)
class Tree:
    """A process with everything that descends from it."""

    root: int

    def cpu_seconds(self) -> float:
        """User and system time of all of them, also of those that have ended meanwhile."""
        ticks = (sum(map(int, _stat(pid)[TIMES])) for pid in self._pids())
        return sum(ticks) / TICKS_PER_SECOND

    def cpu_seconds_by_process(self) -> dict[int, float]:
        """Of those that are no store."""
        pids = [pid for pid in self._pids() if _name(pid) not in STORES]
        stats = {pid: _stat(pid) for pid in pids}
        return {
            pid: sum(map(int, stat[TIMES])) / TICKS_PER_SECOND
            for pid, stat in stats.items()
            if stat
        }

    def memory(self) -> Memory:
        store = server = 0
        for pid in self._pids():
            if _name(pid) in STORES:
                store += _pss_bytes(pid)
            else:
                server += _pss_bytes(pid)
        return Memory(server / 1e6, store / 1e6)

    def open_files(self) -> int:
        return sum(_open_files(pid) for pid in self._pids())

    def _pids(self) -> list[int]:
        children = _children()
        found = [self.root]
        for pid in found:
            found += children[pid]
        return found


def working_in(folder: Path) -> list[int]:
    """Who has its working directory there or below, whoever its parent is by now."""
    return [pid for pid in _all_pids() if _directory(pid).is_relative_to(folder.resolve())]


def _children() -> defaultdict[int, list[int]]:
    children = defaultdict(list)
    for pid in _all_pids():
        if stat := _stat(pid):
            children[int(stat[PARENT])].append(pid)
    return children


def _all_pids() -> Iterator[int]:
    return (int(entry) for entry in os.listdir(PROC) if entry.isdecimal())


def _stat(pid: int) -> list[str]:
    """Empty when the process is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _directory(pid: int) -> Path:
    try:
        return (PROC / str(pid) / "cwd").readlink()
    except OSError:
        return Path()


def _name(pid: int) -> str:
    try:
        return (PROC / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


def _open_files(pid: int) -> int:
    try:
        return len(os.listdir(PROC / str(pid) / "fd"))
    except OSError:
        return 0


def _pss_bytes(pid: int) -> int:
    try:
        lines = (PROC / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), 0)
