"""Redis servers that promise less, and copies of what they had on disk."""

import shutil
from pathlib import Path

from support.external_redis import ExternalRedis


class Backup:
    """What was on the disk of a Redis at one moment."""

    def __init__(self, redis: ExternalRedis, folder: Path) -> None:
        with redis.client() as client:
            client.set("ds-test", "this is the end of it")
            client.execute_command("WAITAOF", 1, 0, 0)
        self._redis = redis
        self._folder = folder
        shutil.copytree(redis.files, folder)

    def put_back(self) -> None:
        """The Redis must not be running."""
        shutil.rmtree(self._redis.files)
        shutil.copytree(self._folder, self._redis.files)
