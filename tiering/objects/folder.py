"""The blocking half of the directory store: objects as files, each exactly its object's bytes."""

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from tiering.errors import Corrupt, Unavailable
from tiering.objects.files import (
    Draft,
    Scratch,
    exclusive,
    make_folder,
    remove_empty_folders,
    sync_folder,
)
from tiering.objects.paths import MARK, metadata_path, path_of
from tiering.objects.span import Span
from tiering.objects.store import ObjectInfo, ObjectMissing
from tiering.objects.walk import walk


class Folder:
    """Several processes may use one directory.

    Metadata lie in a file beside the object's, named before it: without the object they mean
    nothing, and the next writer replaces them. Names are given and taken under one lock, which
    is never held while content is written.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = root / f"{MARK}lock"
        self._scratch = Scratch(root / f"{MARK}scratch")

    def open(self) -> None:
        """Makes the directory, but not those above it: a mistyped path is an error."""
        with _translated():
            self._root.mkdir(exist_ok=True)
            sync_folder(self._root.parent)
            self._scratch.open()

    def look(self) -> None:
        """Leaves everything as it is: who only reads may not be allowed more."""
        with _translated(), os.scandir(self._root):
            pass

    def put(self, key: str, body: bytes, metadata: Mapping[str, str], *, replace: bool) -> bool:
        path = self._path(key)
        with _translated(), contextlib.ExitStack() as written:
            fresh = written.enter_context(self._scratch.file(body))
            note = written.enter_context(self._scratch.file(_note(metadata))) if metadata else None
            with exclusive(self._lock):
                is_new = replace or not path.exists()
                if is_new:
                    _name(path, fresh, note, replace=replace)
            # Another writer's object too must be durable before anyone builds on it.
            with contextlib.suppress(FileNotFoundError):
                sync_folder(path.parent)
        return is_new

    def begin(self) -> Draft:
        with _translated():
            return self._scratch.begin()

    def write(self, draft: Draft, piece: bytes) -> None:
        with _translated():
            draft.file.write(piece)

    def finish(self, draft: Draft, key: str) -> None:
        path = self._path(key)
        with _translated():
            draft.sync()
            with exclusive(self._lock):
                _name(path, draft.path, None, replace=True)
            sync_folder(path.parent)

    def open_object(self, key: str, span: Span) -> tuple[BinaryIO, int]:
        """The file, set to where the range starts, and how many bytes are to be read."""
        with _missing_or_translated(), contextlib.ExitStack() as on_error:
            file = on_error.enter_context(self._path(key).open("rb"))
            length = span.length_in(os.fstat(file.fileno()).st_size)
            file.seek(span.start)
            on_error.pop_all()
            return file, length

    def info(self, key: str) -> ObjectInfo:
        path = self._path(key)
        with _missing_or_translated():
            size = path.stat().st_size
            if path.is_dir():
                raise ObjectMissing
            return ObjectInfo(key, size, _noted(path))

    def walk(self, prefix: str, after: str | None) -> Iterator[ObjectInfo]:
        with _translated():
            yield from walk(self._root, prefix, after)

    def delete(self, keys: Sequence[str]) -> None:
        with _translated():
            with exclusive(self._lock):
                changed = {self._remove(self._path(key)) for key in keys}
            for folder in changed:
                with contextlib.suppress(FileNotFoundError):
                    sync_folder(folder)

    def _path(self, key: str) -> Path:
        return self._root / path_of(key)

    def _remove(self, path: Path) -> Path:
        """The folder in which something has changed, or would have."""
        path.unlink(missing_ok=True)
        metadata_path(path).unlink(missing_ok=True)
        return remove_empty_folders(path.parent, self._root)


def read(file: BinaryIO, length: int) -> bytes:
    with _translated():
        content = file.read(length)
    if len(content) < length:
        raise Corrupt("A stored object has become shorter.")
    return content


def _name(path: Path, fresh: Path, note: Path | None, *, replace: bool) -> None:
    make_folder(path.parent)
    if note is None:
        metadata_path(path).unlink(missing_ok=True)
    else:
        note.replace(metadata_path(path))
    if replace:
        fresh.replace(path)
    else:
        path.hardlink_to(fresh)


def _note(metadata: Mapping[str, str]) -> bytes:
    return json.dumps(metadata).encode()


def _noted(path: Path) -> dict[str, str]:
    try:
        known: dict[str, str] = json.loads(metadata_path(path).read_bytes())
    except FileNotFoundError:
        return {}
    return known


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(f"Object storage failed: {error.strerror}.") from error


@contextlib.contextmanager
def _missing_or_translated() -> Iterator[None]:
    with _translated():
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise ObjectMissing from error
