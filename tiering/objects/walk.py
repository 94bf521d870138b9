"""The keys in a directory, in byte order, without reading more of it than is asked for."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tiering.objects.paths import MARK, begins, is_metadata, key_of
from tiering.objects.store import ObjectInfo

_SETTLED_NS = 10**9


@dataclass(frozen=True, slots=True)
class Entry:
    """A file and its key, or a folder and what all keys in it begin with."""

    path: str
    text: str
    is_folder: bool


@dataclass(frozen=True, slots=True)
class Walk:
    root: str
    prefix: str
    after: str

    def infos(self, folder: str = "") -> Iterator[ObjectInfo]:
        for entry in sorted(self._entries(folder), key=lambda entry: entry.text):
            if entry.is_folder:
                yield from self.infos(f"{entry.path}/")
            elif info := self._info(entry):
                yield info

    def _entries(self, folder: str) -> Iterator[Entry]:
        try:
            found = os.scandir(f"{self.root}/{folder}")
        except FileNotFoundError:  # Its last object has just been deleted.
            return
        with found:
            for file in found:
                entry = _entry(folder + file.name, file.is_dir())
                if self._wants(entry):
                    yield entry

    def _wants(self, entry: Entry) -> bool:
        if entry.path.startswith(MARK) or is_metadata(entry.path):
            return False
        if not entry.is_folder:
            return entry.text.startswith(self.prefix) and entry.text > self.after
        fits = entry.text.startswith(self.prefix) or self.prefix.startswith(entry.text)
        return fits and (entry.text > self.after or self.after.startswith(entry.text))

    def _info(self, entry: Entry) -> ObjectInfo | None:
        try:
            found = os.stat(f"{self.root}/{entry.path}")
        except FileNotFoundError:
            return None
        return ObjectInfo(entry.text, found.st_size, tag=_tag(found))


def _tag(found: os.stat_result) -> str:
    """Clocks of file systems are coarse, and numbers of files are given again: what was written
    just now may be replaced without a trace."""
    is_settled = time.time_ns() - found.st_mtime_ns > _SETTLED_NS
    return f"{found.st_mtime_ns}-{found.st_ino}" if is_settled else ""


def walk(root: Path, prefix: str, after: str | None) -> Iterator[ObjectInfo]:
    return Walk(str(root), prefix, after or "").infos()


def _entry(path: str, is_folder: bool) -> Entry:
    return Entry(path, begins(path) if is_folder else key_of(path), is_folder)
