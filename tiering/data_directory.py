"""A server without settings keeps everything in one directory: what others must know of it."""

from pathlib import Path


def objects_in(data: Path) -> Path:
    return data / "objects"


def redis_lock_in(data: Path) -> Path:
    """Locked while a Redis runs there; says its process and its socket."""
    return data / "redis.lock"


def noted_socket(lock: Path) -> Path | None:
    """Where the last Redis listened, and one that still runs listens."""
    _, _, socket = lock.read_text().strip().partition("\n")
    return Path(socket) if socket else None
