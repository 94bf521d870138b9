"""The data directory: what lies where in it, and that only one server uses it."""

import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ds_server.embedded.locks import try_lock
from tiering.data_directory import redis_lock_in
from tiering.errors import Refused

# The kernel's limit for the address of a unix socket is 108 bytes, 104 on some systems.
LONGEST_SOCKET_PATH = 100


class DataDirectory:
    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.lock = self.path / "lock"
        self.redis_lock = redis_lock_in(self.path)
        self.redis_log = self.path / "redis.log"
        self.redis_files = self.path / "redis"
        self.engine_record = self.path / "engine.json"

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keeps every other server out of the directory."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.redis_files.mkdir(mode=0o700, exist_ok=True)
            descriptor = try_lock(self.lock)
        except OSError as error:
            raise Refused(f"data directory {self.path}: {error.strerror}") from error
        if descriptor is None:
            raise Refused(f"data directory {self.path} is in use by {self._holder()}")
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{os.getpid()}\n".encode())
            yield
        finally:
            os.close(descriptor)

    def holds_data(self) -> bool:
        return any(self.redis_files.iterdir())

    def socket(self) -> Path:
        beside_the_data = self.path / "redis.sock"
        if len(os.fsencode(beside_the_data)) <= LONGEST_SOCKET_PATH:
            return beside_the_data
        return _private_directory(self._short_name()) / "redis.sock"

    def leave_nothing_elsewhere(self) -> None:
        with suppress(OSError):
            self._short_name().rmdir()

    def _short_name(self) -> Path:
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        return Path(tempfile.gettempdir()) / f"ds-server-{os.geteuid()}-{digest}"

    def _holder(self) -> str:
        pid = self.lock.read_text().strip()
        return f"another ds-server (pid {pid})" if pid else "another ds-server"


def _private_directory(path: Path) -> Path:
    """The temporary directory is everybody's: nobody else may have made this one."""
    path.mkdir(mode=0o700, exist_ok=True)
    found = path.lstat()
    if (
        not stat.S_ISDIR(found.st_mode)
        or found.st_uid != os.geteuid()
        or stat.S_IMODE(found.st_mode) != 0o700
    ):
        raise Refused(f"{path} must be a directory that only this user can enter")
    return path
