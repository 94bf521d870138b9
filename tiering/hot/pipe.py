"""Commands written as they come, replies matched in order."""

import asyncio
from collections import deque

import hiredis

from tiering.errors import Mistake, StreamError, Unavailable
from tiering.hot import scripts
from tiering.hot.connection import Address, Argument, Connection, Reply, pack

_NO_SCRIPT = "NOSCRIPT"


class Pipe(Connection):
    """Many callers, one connection: nobody waits for another's reply before writing.

    A command whose reply is more than `timeout_secs` late condemns the connection: its callers
    learn that the outcome is unknown, and the next ones get a fresh start.
    """

    def __init__(self, address: Address, timeout_secs: float) -> None:
        super().__init__(address, timeout_secs)
        self._waiting: deque[tuple[asyncio.Future[Reply], float]] = deque()
        self._outbox: list[bytes] = []
        self._loop = asyncio.get_running_loop()
        self.sent = 0

    def execute(self, *command: Argument) -> asyncio.Future[Reply]:
        if self._transport is None:
            raise Unavailable("The hot tier cannot be reached.")
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(pack(command))
        self.sent += 1
        future = self._loop.create_future()
        self._waiting.append((future, self._loop.time()))
        return future

    async def call(self, *command: Argument) -> Reply:
        try:
            return await self.execute(*command)
        except hiredis.ReplyError as error:
            raise translated(error) from error

    async def run(self, verb: str, keys: tuple[str, ...], *arguments: Argument) -> Reply:
        script = scripts.load(verb)
        try:
            return await self.execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
        except hiredis.ReplyError as error:
            if not str(error).startswith(_NO_SCRIPT):
                raise translated(error) from error
        return await self.call("EVAL", script.source, len(keys), *keys, *arguments)

    def _flush(self) -> None:
        """One write for all commands of this turn of the event loop."""
        if self._transport is not None:
            self._transport.write(b"".join(self._outbox))
        self._outbox.clear()

    async def _on_connected(self, greeting: list[tuple[Argument, ...]]) -> None:
        commands = [
            *greeting,
            *(("SCRIPT", "LOAD", scripts.load(verb).source) for verb in scripts.VERBS),
        ]
        replies = [self.execute(*command) for command in commands]
        try:
            await asyncio.wait_for(asyncio.gather(*replies), self._timeout_secs)
        except hiredis.ReplyError as error:
            raise translated(error) from error
        except TimeoutError as error:
            raise Unavailable("Redis does not answer.") from error

    def _on_reply(self, reply: Reply) -> None:
        future, _ = self._waiting.popleft()
        if future.done():
            return
        if isinstance(reply, hiredis.ReplyError):
            future.set_exception(reply)
        else:
            future.set_result(reply)

    def _on_disconnected(self) -> None:
        self._outbox.clear()
        waiting, self._waiting = self._waiting, deque()
        for future, _ in waiting:
            if not future.done():
                future.set_exception(Unavailable("The connection to the hot tier broke."))

    def _silence_secs(self) -> float:
        return self._loop.time() - self._waiting[0][1] if self._waiting else 0.0


def translated(error: hiredis.ReplyError) -> StreamError:
    """What an error of Redis means to a caller: nothing was changed, try again."""
    text = str(error)
    if text.startswith("OOM"):
        return Unavailable("The hot tier is full.")
    if text.startswith(("LOADING", "BUSY", "MISCONF", "READONLY", "MASTERDOWN", "NOREPLICAS")):
        return Unavailable(f"The hot tier does not take commands now: {text.split(' ')[0]}.")
    if text.startswith(("NOAUTH", "WRONGPASS", "NOPERM")):
        return Unavailable("The hot tier refuses this server's credentials.")
    return Mistake(f"The hot tier refused a command: {text}")
