"""Whether an object store can be trusted, asked before it is."""

import uuid

from tiering.errors import Refused, StreamError
from tiering.objects.store import ObjectStore


async def probe(store: ObjectStore) -> None:
    """Refused, in one line, unless the store does all that is needed of it."""
    key = f"probe/{uuid.uuid4().hex}"
    try:
        # First a listing: some stores make a bucket that is not there when they are written to.
        async for _ in store.list(key):
            break
        try:
            await _write_twice(store, key)
        finally:
            await store.delete([key])
    except StreamError as error:
        reason = " ".join(str(error.__cause__ or error).split())
        raise Refused(f"{store} cannot be used: {reason}") from error


async def insist_on_names(store: ObjectStore, longest: int) -> None:
    """What cannot be named there could never leave the hot tier."""
    key = f"probe/{uuid.uuid4().hex[:longest]:x<{longest}}/0"
    try:
        await store.put_if_absent(key, b"")
        await store.delete([key])
    except StreamError as error:
        raise Refused(
            f"{store} cannot be used: it does not take names of {longest} bytes ({error}); "
            "set limits.max_name_bytes to what it takes, 255 for MinIO"
        ) from error


async def _write_twice(store: ObjectStore, key: str) -> None:
    written = await store.put_if_absent(key, b"first")
    overwritten = await store.put_if_absent(key, b"second")
    if overwritten or await store.get(key) != b"first":
        raise Refused(f"{store} cannot be used: it does not honour put-if-absent")
    if not written:
        raise Refused(f"{store} cannot be used: it takes a new object for an old one")
