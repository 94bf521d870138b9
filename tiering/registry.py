"""The stream that lists the streams, for tools that want to discover them. Buckets have a listing
of their own."""

import logging
import time

import orjson

from tiering.errors import NotFound, StreamError
from tiering.hot.terms import Append
from tiering.hot.tier import HotTier
from tiering.membership import member_of
from tiering.messages import NOTHING, encode
from tiering.stream import JSON, Configuration, ContentType, Lifetime

log = logging.getLogger(__name__)

REGISTRY = "__registry__"
_JSON = ContentType(JSON)


class Registry:
    """An entry that could not be written is logged, never the failure of the change itself."""

    def __init__(self, tier: HotTier) -> None:
        self._tier = tier

    async def created(self, name: str, content_type: ContentType) -> None:
        value = {
            "path": name,
            "contentType": content_type.text,
            "createdAt": int(time.time() * 1000),
        }
        await self._tell(name, {"value": value, "headers": {"operation": "insert"}})

    async def deleted(self, name: str) -> None:
        await self._tell(name, {"headers": {"operation": "delete"}})

    async def _tell(self, name: str, change: dict[str, object]) -> None:
        if name == REGISTRY or member_of(name) is not None:
            return
        message = orjson.dumps({"type": "stream", "key": name, **change})
        append = Append(encode(_JSON, message), JSON)
        try:
            await self._append(append)
        except StreamError as error:
            log.warning("the registry misses a change of %s: %s", name, error)

    async def _append(self, append: Append) -> None:
        try:
            await self._tier.append(REGISTRY, append)
        except NotFound:
            wanted = Configuration(_JSON, Lifetime(), False)
            await self._tier.create(REGISTRY, wanted, NOTHING, await self._tier.mint())
            await self._tier.append(REGISTRY, append)
