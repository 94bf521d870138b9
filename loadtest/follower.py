"""The other side of the load: who follows a stream by server-sent events."""

import asyncio
import re
from collections.abc import Callable
from typing import cast

from loadtest import wire
from loadtest.generator import Tally

MESSAGE = re.compile(rb"<([0-9]{6})>")
KEPT_BYTES = 16


def message(number: int, size: int) -> bytes:
    return (b"<%06d>" % number).ljust(size, b".")


class Follower(asyncio.Protocol):
    """Wants every message, once, in order.

    Messages are looked for in the raw bytes: the framing around them is of no interest, and no
    server breaks it inside the few bytes that number a message.
    """

    def __init__(self, request: bytes, hear: Callable[[int], None], tally: Tally) -> None:
        self._request = request
        self._hear = hear
        self._tally = tally
        self._received = b""
        self._next = 0
        self._stopped = False
        self._begun = asyncio.get_running_loop().create_future()

    async def begun(self) -> None:
        await self._begun

    def stall(self) -> None:
        """Reads nothing from now on, and does not mind if the server ends that."""
        self._stopped = True
        self._transport.pause_reading()

    def stop(self) -> None:
        self._stopped = True
        self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        self._received += data
        if self._begun.done():
            self._take_messages()
        elif wire.END_OF_HEAD in self._received:
            self._begin()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._stopped:
            self._tally.fail(f"the server hung up on a follower: {error}")
        if not self._begun.done():
            self._begun.set_result(None)

    def _begin(self) -> None:
        """Nothing is appended before everyone is here, so no message is in these bytes."""
        if not self._received.startswith(b"HTTP/1.1 200"):
            self._tally.fail(self._received.decode(errors="replace"))
        self._received = b""
        self._begun.set_result(None)

    def _take_messages(self) -> None:
        end = 0
        for found in MESSAGE.finditer(self._received):
            end = found.end()
            self._take(int(found[1]))
        self._received = self._received[max(end, len(self._received) - KEPT_BYTES) :]

    def _take(self, number: int) -> None:
        if number != self._next:
            self._tally.fail(f"a follower got message {number} when {self._next} was due")
        self._next = number + 1
        self._hear(number)
