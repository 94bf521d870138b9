"""Commands written as they come, replies matched in order."""

import asyncio
import logging
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from typing import Protocol

import hiredis

from tiering.errors import Mistake, StreamError, Unavailable
from tiering.hot import scripts
from tiering.hot.connection import (
    Address,
    Argument,
    Connection,
    Reply,
    pack,
    pack_in_pieces,
)
from tiering.hot.keys import DEPLOYMENT

log = logging.getLogger(__name__)

NO_SCRIPT = "NOSCRIPT"

Staged = Mapping[str, memoryview]
_RUN_ID = re.compile(rb"^run_id:([0-9a-f]+)", re.MULTILINE)


class Receiver(Protocol):
    """Waits for a reply, as a future does."""

    def done(self) -> bool: ...

    def set_result(self, reply: Reply, /) -> None: ...

    def set_exception(self, error: BaseException, /) -> None: ...


class Unwritten(Receiver, Protocol):
    """A command that is made when the turn of the event loop is over."""

    def packed(self) -> bytes: ...


class Pipe(Connection):
    """Many callers, one connection: nobody waits for another's reply before writing.

    A command whose reply is more than `timeout_secs` late condemns the connection: its callers
    learn that the outcome is unknown, and the next ones get a fresh start.

    Once `deployment` is set, a Redis that does not hold that id is not spoken to.
    """

    def __init__(self, address: Address, timeout_secs: float) -> None:
        super().__init__(address, timeout_secs)
        self._waiting: deque[tuple[Receiver, float]] = deque()
        self._outbox: list[bytes | Unwritten] = []
        self._loop = asyncio.get_running_loop()
        self._is_known = False
        self.sent = 0
        self.turn = 0
        self.run_id = ""
        self.deployment: bytes | None = None

    def execute(self, *command: Argument) -> asyncio.Future[Reply]:
        """Nothing is sent before it is known which Redis, and which run of it, this is."""
        if not self._is_known:
            raise Unavailable("The hot tier cannot be reached.")
        return self._send(command)

    def _send(self, command: tuple[Argument, ...]) -> asyncio.Future[Reply]:
        future = self._loop.create_future()
        self._put(pack(command), future)
        return future

    def put(self, command: Unwritten) -> None:
        """It may change until `turn` does."""
        self.send(command, command)

    def send(self, command: bytes | Unwritten, receiver: Receiver) -> None:
        if not self._is_known:
            raise Unavailable("The hot tier cannot be reached.")
        self._put(command, receiver)

    def _put(self, command: bytes | Unwritten, receiver: Receiver) -> None:
        if not self._outbox:
            self._loop.call_soon(self._flush)
        self._outbox.append(command)
        self.sent += 1
        self._waiting.append((receiver, self._loop.time()))

    def _execute_large(self, *commands: tuple[Argument, ...]) -> list[asyncio.Future[Reply]]:
        """Large arguments are written from where they are."""
        if not self._is_known or self._transport is None:
            raise Unavailable("The hot tier cannot be reached.")
        self._flush()
        pieces = (piece for command in commands for piece in pack_in_pieces(command))
        self._transport.writelines(pieces)
        self.sent += len(commands)
        futures = [self._loop.create_future() for _ in commands]
        self._waiting.extend((future, self._loop.time()) for future in futures)
        return futures

    async def _execute_staged(self, staged: Staged, *command: Argument) -> Reply:
        """In one transaction, of which nothing but the command's own effects remains."""
        replies = await asyncio.gather(
            *self._execute_large(
                ("MULTI",),
                *(("SET", key, value) for key, value in staged.items()),
                command,
                ("UNLINK", *staged),
                ("EXEC",),
            ),
            return_exceptions=True,
        )
        for reply in replies:
            if isinstance(reply, BaseException):
                raise reply
        outcome: Reply = replies[-1]
        *_, result, _ = outcome
        if isinstance(result, hiredis.ReplyError):
            raise result
        return result

    async def call(self, *command: Argument) -> Reply:
        try:
            return await self.execute(*command)
        except hiredis.ReplyError as error:
            raise translated(error) from error

    async def call_all(self, commands: Iterable[tuple[Argument, ...]]) -> list[Reply]:
        """Many at once, for little more than the price of one."""
        try:
            return await asyncio.gather(*(self.execute(*command) for command in commands))
        except hiredis.ReplyError as error:
            raise translated(error) from error

    async def run(self, verb: str, keys: tuple[str, ...], *arguments: Argument) -> Reply:
        return await self._run(self.execute, verb, keys, arguments)

    async def run_large(
        self, verb: str, keys: tuple[str, ...], *arguments: Argument, staged: Staged
    ) -> Reply:
        """The script finds what is staged under its keys, and nobody else does."""

        def execute(*command: Argument) -> Awaitable[Reply]:
            if staged:
                return self._execute_staged(staged, *command)
            return self._execute_large(command)[0]

        return await self._run(execute, verb, keys, arguments)

    async def _run(
        self,
        execute: Callable[..., Awaitable[Reply]],
        verb: str,
        keys: tuple[str, ...],
        arguments: tuple[Argument, ...],
    ) -> Reply:
        script = scripts.load(verb)
        try:
            try:
                return await execute("EVALSHA", script.sha, len(keys), *keys, *arguments)
            except hiredis.ReplyError as error:
                if not str(error).startswith(NO_SCRIPT):
                    raise
            return await execute("EVAL", script.source, len(keys), *keys, *arguments)
        except hiredis.ReplyError as error:
            raise translated(error) from error

    async def scan(self, pattern: str) -> AsyncIterator[str]:
        """Every key that matches, at least once."""
        cursor = b"0"
        while True:
            cursor, keys = await self.call("SCAN", cursor, "MATCH", pattern, "COUNT", 512)
            for key in keys:
                yield key.decode()
            if cursor == b"0":
                return

    def _flush(self) -> None:
        """One write for all commands of this turn of the event loop."""
        self.turn += 1
        if self._transport is not None and self._outbox:
            commands = [c if isinstance(c, bytes) else c.packed() for c in self._outbox]
            self._transport.write(b"".join(commands))
        self._outbox.clear()

    async def _on_connected(self, greeting: list[tuple[Argument, ...]]) -> None:
        commands = [
            *greeting,
            *(("SCRIPT", "LOAD", scripts.load(verb).source) for verb in scripts.VERBS),
            ("INFO", "server"),
            ("GET", DEPLOYMENT),
        ]
        replies = [self._send(command) for command in commands]
        try:
            *_, info, deployment = await asyncio.wait_for(
                asyncio.gather(*replies), self._timeout_secs
            )
        except hiredis.ReplyError as error:
            raise translated(error) from error
        except TimeoutError as error:
            raise Unavailable("Redis does not answer.") from error
        if not self.is_up:
            # All was answered, and then it hung up, before this task had its turn: what would be
            # put now would never be written, and get the replies to the next greeting.
            raise Unavailable("Redis hung up.")
        self._know(info, deployment)
        self._is_known = True

    def _know(self, info: bytes, deployment: bytes | None) -> None:
        if self.deployment is not None and deployment != self.deployment:
            log.error("Redis does not hold this deployment: 'ds-server recover' may be needed")
            raise Unavailable("Redis does not hold this deployment.")
        match = _RUN_ID.search(info)
        self.run_id = match[1].decode() if match else ""

    def _on_reply(self, reply: Reply) -> None:
        receiver, _ = self._waiting.popleft()
        if receiver.done():
            return
        if isinstance(reply, hiredis.ReplyError):
            receiver.set_exception(reply)
        else:
            receiver.set_result(reply)

    def _on_disconnected(self) -> None:
        self._is_known = False
        self.turn += 1
        self._outbox.clear()
        waiting, self._waiting = self._waiting, deque()
        for receiver, _ in waiting:
            if not receiver.done():
                receiver.set_exception(Unavailable("The connection to the hot tier broke."))

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
