"""Redis and bucket must belong together: an empty Redis is not a bucket full of orphans."""

import os

from tiering.cold.keys import DEPLOYMENT as OBJECT
from tiering.errors import Refused
from tiering.hot.keys import DEPLOYMENT as KEY
from tiering.hot.pipe import Pipe
from tiering.objects.store import ObjectMissing, ObjectStore


async def agree(pipe: Pipe, store: ObjectStore) -> None:
    """Refuses a pair that was not set up together. The hot id is always written first."""
    cold = await _cold_id(store)
    if cold is None:
        await pipe.call("SET", KEY, os.urandom(16).hex(), "NX")
    hot: bytes | None = await pipe.call("GET", KEY)
    if cold is None and hot is not None:
        await store.put_if_absent(OBJECT, hot)
        cold = await _cold_id(store)
    if hot is None:
        raise Refused(
            "the bucket holds a deployment's history but Redis knows nothing of it:"
            " run 'ds-server recover' to rebuild Redis from the bucket"
        )
    if hot != cold:
        raise Refused(
            "Redis and the bucket belong to different deployments: point the server at the"
            " right ones, or run 'ds-server recover' to rebuild Redis from the bucket"
        )


async def _cold_id(store: ObjectStore) -> bytes | None:
    try:
        return await store.get(OBJECT)
    except ObjectMissing:
        return None
