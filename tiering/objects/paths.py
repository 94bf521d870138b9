"""Where a key lies in a directory.

A file system takes 255 bytes in a name; a segment of a key can be longer. It is cut into
pieces, each a folder of the one before: `<240 bytes>/^<the rest>`. The mark cannot occur in
a key (`names.py`), and a shorter folder is never cut, so a path means one key and the order
of keys can be told from the names in one folder.
"""

import os
from pathlib import Path

MARK = "^"
_PIECE = 240
_METADATA = f"{MARK}metadata"


def path_of(key: str) -> str:
    return "/".join(_cut(segment) for segment in key.split("/"))


def key_of(path: str) -> str:
    return path.replace(f"/{MARK}", "")


def begins(folder: str) -> str:
    """What every key in this folder begins with, and no other key does in the folder above."""
    is_cut = len(os.path.basename(folder).removeprefix(MARK)) == _PIECE
    return key_of(folder) if is_cut else key_of(folder) + "/"


def metadata_path(path: Path) -> Path:
    return path.with_name(path.name + _METADATA)


def is_metadata(path: str) -> bool:
    """Only there does the mark follow something: a piece of a segment begins with it."""
    return MARK in os.path.basename(path)[1:]


def _cut(segment: str) -> str:
    starts = range(0, len(segment) + 1, _PIECE)
    return f"/{MARK}".join(segment[start : start + _PIECE] for start in starts)
