"""Found first by every interpreter of a server that is started with this folder on its path:
the same application, but an append is answered without asking Redis. What it reaches is what
the rest of the application leaves for storage."""

import asyncio
import itertools

from tiering.hot.pipe import Receiver
from tiering.hot.terms import Append, Appended
from tiering.hot.tier import HotTier
from tiering.offset import Offset

_positions = itertools.count(1)


async def _append(self: object, name: str, append: Append) -> Appended:
    highest = append.producer.seq if append.producer else None
    return Appended(Offset(1, next(_positions)), False, False, highest)


def _start_append(self: object, name: str, append: Append, receiver: Receiver) -> bool:
    reply = [b"ok", 1, next(_positions), b"", b"", 0]
    asyncio.get_running_loop().call_soon(receiver.set_result, reply)
    return True


HotTier.append = _append
HotTier.start_append = _start_append
