"""The directory of an export, and every change that the driver makes to it.

What readers see are whole files, put in place one by one after `state.json` said which. A run that
ends anywhere in between is finished by the next one, or has left drafts that nobody sees.
"""

import contextlib
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from spark.export.layout import STREAM
from spark.export.state import State, decode
from tiering.errors import Refused
from tiering.objects.files import make_folder, sync_folder
from tiering.offset import Offset

_OURS = "_export"


class Busy(Exception):
    """Another run is at work; the message is one line for the operator."""


class Directory:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._ours = root / _OURS
        self._state = self._ours / "state.json"
        self._all_drafts = self._ours / "drafts"
        self.drafts = self._all_drafts / uuid.uuid4().hex
        """Where executors of this run write. One that outlives its driver does no harm there."""

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """For one run at a time. The lock ends with the process, however that ends."""
        with self._usable():
            make_folder(self._ours)
            lock = (self._ours / "lock").open("ab")
        with lock:
            self._take(lock)
            try:
                yield
            finally:
                shutil.rmtree(self.drafts, ignore_errors=True)

    def _take(self, lock: BinaryIO) -> None:
        with self._usable():
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy(f"another export to {self.root} is at work") from None

    def state(self) -> State | None:
        with self._usable():
            try:
                return decode(self._state.read_bytes(), str(self._state))
            except FileNotFoundError:
                pass
            if self.root.is_dir() and any(self.root.glob(f"{STREAM}=*")):
                raise Refused(f"{self.root} has exported files but no {_OURS}/{self._state.name}")
        return None

    def settle(self, state: State) -> State:
        """Finishes what the last run had begun to put in place, and discards its drafts."""
        if state.pending.files or state.pending.streams:
            state = self._put_in_place(state)
        self.clear()
        return state

    def clear(self) -> None:
        with self._usable():
            shutil.rmtree(self._all_drafts, ignore_errors=True)
            make_folder(self.drafts)

    def commit(
        self, state: State, files: Sequence[tuple[str, str]], reached: Mapping[str, Offset]
    ) -> State:
        """Drafts become files. They are safe on disk by now, but perhaps not their names."""
        with self._usable():
            sync_folder(self.drafts)
            state = state.intending([(self._within(draft), path) for draft, path in files], reached)
            self._write(state)
        return self._put_in_place(state)

    def _put_in_place(self, state: State) -> State:
        """In the order of positions: what is there of a stream at any moment has no hole."""
        with self._usable():
            for draft, path in state.pending.files:
                self._rename(self.root / draft, self.root / path)
            for folder in {(self.root / path).parent for _, path in state.pending.files}:
                sync_folder(folder)
            state = state.settled()
            self._write(state)
        return state

    def _rename(self, draft: Path, target: Path) -> None:
        make_folder(target.parent)
        try:
            os.replace(draft, target)
        except FileNotFoundError:
            if not target.exists():
                raise Refused(
                    f"{target} is gone, which the last run had written: restore it,"
                    f" or take it out of `pending` in {self._state}"
                ) from None

    def _write(self, state: State) -> None:
        draft = self._state.with_suffix(".draft")
        with draft.open("wb") as file:
            file.write(state.encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._state)
        sync_folder(self._ours)

    def _within(self, draft: str) -> str:
        return str((self.drafts / draft).relative_to(self.root))

    @contextlib.contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise Refused(f"{self.root} cannot be used: {error}") from error
