"""Files and folders that are there after a crash, or not at all."""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO


@contextlib.contextmanager
def exclusive(lock: Path) -> Iterator[None]:
    """One at a time among all threads and processes."""
    with lock.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)
        sync_folder(folder.parent)


def remove_empty_folders(folder: Path, root: Path) -> Path:
    """Removes the folder and those above it while they are empty; the first that stays."""
    while folder != root:
        try:
            folder.rmdir()
        except FileNotFoundError:
            pass
        except OSError:
            break
        folder = folder.parent
    return folder


@dataclass(frozen=True, slots=True)
class Draft:
    """A file that is being written, under a name that is gone afterwards."""

    path: Path
    file: BinaryIO

    def sync(self) -> None:
        self.file.flush()
        os.fsync(self.file.fileno())

    def discard(self) -> None:
        self.file.close()
        self.path.unlink(missing_ok=True)


class Scratch:
    """Where a file is written before it gets its name. The lock on it says: not abandoned."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def file(self, content: bytes) -> Iterator[Path]:
        """A file safe on disk."""
        draft = self.begin()
        try:
            draft.file.write(content)
            draft.sync()
            yield draft.path
        finally:
            draft.discard()

    def begin(self) -> Draft:
        """Locked, and still there: who tidies up may have seen it before the lock."""
        while True:
            path = self._folder / uuid.uuid4().hex
            file = path.open("xb")
            fcntl.flock(file, fcntl.LOCK_EX)
            if os.fstat(file.fileno()).st_nlink > 0:
                return Draft(path, file)
            file.close()

    def open(self) -> None:
        """Removes what crashed processes have left; a living one's file is locked."""
        make_folder(self._folder)
        for path in self._folder.iterdir():
            with contextlib.suppress(FileNotFoundError, BlockingIOError), path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
