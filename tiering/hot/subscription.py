"""One connection that hears what is published about followed streams."""

import asyncio
from collections.abc import Callable

import hiredis

from tiering.errors import Unavailable
from tiering.hot.connection import Address, Argument, Connection, Reply

Listener = Callable[[bytes | None], None]


class Subscription(Connection):
    """A listener gets every message of its channel, and None after messages may have been lost."""

    def __init__(self, address: Address, timeout_secs: float) -> None:
        super().__init__(address, timeout_secs)
        self._loop = asyncio.get_running_loop()
        self._heard_at = self._loop.time()
        self._listeners: dict[bytes, Listener] = {}
        self._greeted: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def follow(self, channel: str, listener: Listener) -> None:
        """The listener's first call is None, once the channel is heard."""
        self._listeners[channel.encode()] = listener
        if self.is_up:
            self._write(("SUBSCRIBE", channel))

    def unfollow(self, channel: str) -> None:
        del self._listeners[channel.encode()]
        if self.is_up:
            self._write(("UNSUBSCRIBE", channel))

    async def _on_connected(self, greeting: list[tuple[Argument, ...]]) -> None:
        """Back only when Redis has answered: it may accept connections while it is frozen."""
        self._heard_at = self._loop.time()
        self._greeted = self._loop.create_future()
        self._write(*greeting, ("PING",))
        if self._listeners:
            self._write(("SUBSCRIBE", *self._listeners))
        try:
            await asyncio.wait_for(self._greeted, self._timeout_secs)
        except TimeoutError as error:
            raise Unavailable("Redis does not answer.") from error

    def _on_reply(self, reply: Reply) -> None:
        self._heard_at = self._loop.time()
        if isinstance(reply, hiredis.ReplyError):
            self._drop()
            return
        if not self._greeted.done():
            self._greeted.set_result(None)
        if not isinstance(reply, list):
            return
        kind, channel = reply[0], reply[1]
        listener = self._listeners.get(channel)
        if listener is None:
            return
        if kind == b"message":
            listener(reply[2])
        elif kind == b"subscribe":
            listener(None)

    def _on_disconnected(self) -> None:
        """Listeners hear None when the channel is heard again."""
        if not self._greeted.done():
            self._greeted.set_exception(Unavailable("The connection to the hot tier broke."))

    def _silence_secs(self) -> float:
        """Nothing is due on a quiet channel, so the silence is broken by asking."""
        silence = self._loop.time() - self._heard_at
        if silence > self._timeout_secs / 3:
            self._write(("PING",))
        return silence
