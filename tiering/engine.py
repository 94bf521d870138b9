"""What a Redis promises about acknowledged appends, asked before it is trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import redis.asyncio
import redis.exceptions

from tiering.errors import Refused


class Durability(Enum):
    ALWAYS = "always"
    EVERY_SECOND = "everysec"
    NONE = "none"
    UNKNOWN = "unknown"


_SENTENCES = {
    Durability.ALWAYS: "every acknowledged append is on disk (fsync before the answer)",
    Durability.EVERY_SECOND: "a crash of Redis can lose the last second of acknowledged appends",
    Durability.NONE: "acknowledged appends live in memory only; a crash of Redis loses them",
    Durability.UNKNOWN: "Redis does not tell how it stores appends; nothing is promised",
}


@dataclass(frozen=True, slots=True)
class Promise:
    engine: str
    version: str
    durability: Durability

    @property
    def is_durable(self) -> bool:
        """Every acknowledged append is on disk."""
        return self.durability is Durability.ALWAYS

    @property
    def sentence(self) -> str:
        return _SENTENCES[self.durability]


async def inspect(redis_url: str) -> Promise:
    """Refuses a Redis that cannot be reached or that may evict data."""
    client = redis.asyncio.Redis.from_url(redis_url, socket_connect_timeout=5, socket_timeout=5)
    try:
        info: Mapping[str, Any] = await client.info()
        _refuse_eviction(str(info.get("maxmemory_policy", "noeviction")))
        return Promise(*_identity(info), await _durability(client, info))
    except redis.exceptions.RedisError as error:
        raise Refused(f"Redis cannot be used: {error}") from error
    finally:
        await client.aclose()


def _refuse_eviction(policy: str) -> None:
    if policy != "noeviction":
        raise Refused(f"Redis may evict data (maxmemory-policy is {policy}): set it to noeviction")


def _identity(info: Mapping[str, Any]) -> tuple[str, str]:
    if "valkey_version" in info:
        return "valkey", str(info["valkey_version"])
    return str(info.get("server_name", "redis")), str(info.get("redis_version", "unknown"))


async def _durability(client: "redis.asyncio.Redis", info: Mapping[str, Any]) -> Durability:
    if not int(info.get("aof_enabled", 0)):
        return Durability.NONE
    try:
        policy = (await client.config_get("appendfsync")).get("appendfsync")
    except redis.exceptions.ResponseError:
        return Durability.UNKNOWN
    known = {"always": Durability.ALWAYS, "everysec": Durability.EVERY_SECOND}
    return known.get(str(policy), Durability.NONE)
