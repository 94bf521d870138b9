"""Both tiers of a running deployment, for jobs that change what is stored."""

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from spark.options import Bucket
from tiering.data_directory import noted_socket, objects_in, redis_lock_in
from tiering.deployment import agree, cold_id
from tiering.errors import Refused, Unavailable
from tiering.hot.connection import Address
from tiering.hot.pipe import Pipe

_TIMEOUT_SECS = 60.0
_DATA_DIR = "./data"


@dataclass(frozen=True, slots=True)
class Deployment:
    """Where Redis is, which only the driver speaks to, and where the objects are."""

    redis: str
    bucket: Bucket

    @classmethod
    def parse(
        cls, given: Mapping[str, str | None], environment: Mapping[str, str] = os.environ
    ) -> "Deployment":
        """What is given goes before the server's own variables, and these before its defaults."""
        redis = given.get("redis") or environment.get("DS_REDIS__URL")
        return cls(redis or _redis_in(_data(given, environment)), bucket_of(given, environment))

    @asynccontextmanager
    async def redis_of_the_bucket(self) -> AsyncIterator[Pipe]:
        """Refused when the two do not belong together; neither is ever set up here."""
        pipe = await self._opened()
        try:
            async with self.bucket.open() as store:
                if await cold_id(store) is None:
                    raise Refused(f"{store} holds no streams of a server")
                pipe.deployment = await agree(pipe, store)
            yield pipe
        finally:
            await pipe.close()

    async def _opened(self) -> Pipe:
        try:
            pipe = Pipe(Address.parse(self.redis), _TIMEOUT_SECS)
        except ValueError as error:
            raise Refused(f"{self.redis!r} is no address of a Redis: {error}") from None
        try:
            await pipe.open()
        except OSError as error:
            raise Unavailable(f"Redis cannot be reached: {error}.") from error
        return pipe


def bucket_of(
    given: Mapping[str, str | None], environment: Mapping[str, str] = os.environ
) -> Bucket:
    """For who needs nothing else of a deployment."""

    def chosen(name: str, variable: str) -> str | None:
        return given.get(name) or environment.get(variable) or None

    data = _data(given, environment)
    objects = chosen("objects", "DS_OBJECTS__URL") or objects_in(data).as_uri()
    return Bucket(
        objects if "://" in objects else Path(objects).absolute().as_uri(),
        chosen("endpoint", "DS_OBJECTS__ENDPOINT"),
        chosen("region", "DS_OBJECTS__REGION"),
    )


def _data(given: Mapping[str, str | None], environment: Mapping[str, str]) -> Path:
    chosen = given.get("data_dir") or environment.get("DS_STORAGE__DATA_DIR")
    return Path(chosen or _DATA_DIR).absolute()


def _redis_in(data: Path) -> str:
    lock = redis_lock_in(data)
    try:
        socket = noted_socket(lock)
    except OSError:
        socket = None
    if socket is None:
        raise Refused(f"no server has run on {data}: name its Redis, or its data directory")
    return f"unix://{quote(str(socket))}"
