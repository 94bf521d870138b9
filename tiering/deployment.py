"""Redis and bucket must belong together: an empty Redis is not a bucket full of orphans."""

import os

from tiering.cold.keys import DEPLOYMENT as OBJECT
from tiering.errors import Refused
from tiering.hot.keys import ANY_SEALED, RECOVERING
from tiering.hot.keys import DEPLOYMENT as KEY
from tiering.hot.pipe import Pipe
from tiering.objects.store import ObjectMissing, ObjectStore


async def agree(pipe: Pipe, store: ObjectStore) -> bytes:
    """The id of the two. Refuses a pair that was not set up together; the hot id is always
    written first."""
    cold = await cold_id(store)
    if cold is None and await _has_sealed(pipe):
        raise Refused(
            f"Redis knows of history in object storage, but {store} is empty:"
            " point the server at the right bucket"
        )
    if cold is None:
        await pipe.call("SET", KEY, os.urandom(16).hex(), "NX")
    hot: bytes | None = await pipe.call("GET", KEY)
    if cold is None and hot is not None:
        await store.put_if_absent(OBJECT, hot)
        cold = await cold_id(store)
    if hot is None and await pipe.call("EXISTS", RECOVERING):
        raise Refused("a recovery was interrupted: run 'ds-server recover' again")
    if hot is None:
        raise Refused(
            "the bucket holds a deployment's history but Redis knows nothing of it:"
            " run 'ds-server recover' to rebuild Redis from the bucket"
        )
    if hot != cold:
        raise Refused(
            "Redis and the bucket belong to different deployments: point the server at the"
            " right ones, or run 'ds-server recover' to rebuild an empty Redis from the bucket"
        )
    return hot


async def _has_sealed(pipe: Pipe) -> bool:
    async for _ in pipe.scan(ANY_SEALED):
        return True
    return False


async def cold_id(store: ObjectStore) -> bytes | None:
    try:
        return await store.get(OBJECT)
    except ObjectMissing:
        return None
