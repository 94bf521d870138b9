"""A disk of a few megabytes that can be filled to the last byte."""

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support.needs import lack, need

PIECE_BYTES = 4096


class SmallDisk:
    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self) -> None:
        """Leaves nothing, also where something was freed since the last time."""
        with self._ballast.open("ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(PIECE_BYTES))
            except OSError:
                pass

    def empty(self) -> None:
        self._ballast.unlink(missing_ok=True)


@contextmanager
def small_disk(mebibytes: int) -> Iterator[SmallDisk]:
    mount, umount = need("mount"), need("umount")
    if os.geteuid() != 0:
        lack("mounting a small disk takes root")
    with tempfile.TemporaryDirectory(prefix="ds-disk-") as folder:
        size = f"size={mebibytes}m,mode=700"
        mounted = subprocess.run([mount, "-t", "tmpfs", "-o", size, "ds-test", folder])
        if mounted.returncode:
            lack("a tmpfs cannot be mounted here")
        try:
            yield SmallDisk(Path(folder))
        finally:
            subprocess.run([umount, "--lazy", folder], check=True)
