"""Plain appends that come in the same turn of the event loop travel together."""

import asyncio
import struct
from collections.abc import Sequence
from functools import lru_cache

import hiredis

from tiering.hot import scripts
from tiering.hot.appends import INLINE_BYTES, append_keys, append_words, keys_together
from tiering.hot.connection import Argument, Reply, pack
from tiering.hot.logs import Logs
from tiering.hot.pipe import NO_SCRIPT, Pipe, Receiver, translated
from tiering.hot.terms import Append

APART = [b"apart"]
_NUMBERS = struct.Struct("<II")


class Together:
    """Who is alone in his turn sends what he would send anyway.

    A joint command changes nothing unless everyone who shares it is taken. Otherwise each goes
    on by himself, in the order of arrival, and gets an answer of his own.
    """

    def __init__(self, pipe: Pipe, logs: Logs, largest_stream: int) -> None:
        self._pipe = pipe
        self._logs = logs
        self._largest_stream = largest_stream
        self._loop = asyncio.get_running_loop()
        self._turn = 0
        self._joints: dict[tuple[str, str], _Joint] = {}
        self._script_is_known = True

    async def append_together(self, name: str, append: Append) -> Reply:
        """What the script of a single append answers."""
        try:
            future = self._loop.create_future()
            self.join(name, append, future)
            reply = await future
        except hiredis.ReplyError as error:
            if not str(error).startswith(NO_SCRIPT):
                raise translated(error) from error
            reply = APART
        if reply is not APART:
            return reply
        return await self._pipe.run("append", append_keys(name), *self._words(append))

    def join(self, name: str, append: Append, receiver: Receiver) -> None:
        """Who is told `APART` goes on by himself."""
        if self._turn != self._pipe.turn:
            self._turn = self._pipe.turn
            self._joints.clear()
        key = name, append.media
        joint = self._joints.get(key)
        if joint is None or not joint.takes(append, receiver):
            joint = _Joint(self, name, append, receiver)
            self._pipe.put(joint)
            self._joints[key] = joint

    def _words(self, append: Append) -> tuple[Argument, ...]:
        return append_words(append, append.payload.data, self._largest_stream, self._logs.run)

    def alone(self, name: str, append: Append) -> bytes:
        return pack((*_beginning(name), *self._words(append)))

    def joined(self, name: str, appends: list[Append]) -> bytes:
        keys, script = keys_together(name), scripts.load("append_together")
        way = ("EVALSHA", script.sha) if self._script_is_known else ("EVAL", script.source)
        payloads = [append.payload for append in appends]
        return pack(
            (
                *way,
                len(keys),
                *keys,
                b"".join([payload.data for payload in payloads]),
                appends[0].media,
                b"".join([_NUMBERS.pack(len(p.data), len(p.lengths) // 4) for p in payloads]),
                b"".join([payload.lengths for payload in payloads]),
                self._largest_stream,
                self._logs.run,
            )
        )

    def learn(self, *, script_is_known: bool) -> None:
        self._script_is_known = script_is_known


@lru_cache(maxsize=4096)
def _beginning(name: str) -> tuple[Argument, ...]:
    keys = append_keys(name)
    return ("EVALSHA", scripts.load("append").sha, len(keys), *keys)


class _Joint:
    """A command that may be joined until it is written, and those who wait for its reply."""

    __slots__ = ("_appends", "_name", "_receivers", "_room", "_together")

    def __init__(self, together: Together, name: str, append: Append, receiver: Receiver) -> None:
        self._together = together
        self._name = name
        self._room = INLINE_BYTES - len(append.payload.data)
        self._appends = [append]
        self._receivers = [receiver]

    def takes(self, append: Append, receiver: Receiver) -> bool:
        """False when there is no room left."""
        room = self._room - len(append.payload.data)
        if room < 0:
            return False
        self._room = room
        self._appends.append(append)
        self._receivers.append(receiver)
        return True

    def packed(self) -> bytes:
        if len(self._appends) == 1:
            return self._together.alone(self._name, self._appends[0])
        return self._together.joined(self._name, self._appends)

    def done(self) -> bool:
        """Those who were cancelled are passed over one by one."""
        return False

    def set_result(self, reply: Reply) -> None:
        parts = (reply,) if len(self._appends) == 1 else self._parts(reply)
        for receiver, own in zip(self._receivers, parts, strict=True):
            if not receiver.done():
                receiver.set_result(own)

    def _parts(self, reply: Reply) -> Sequence[Reply]:
        self._together.learn(script_is_known=True)
        if reply == APART:
            return [APART] * len(self._appends)
        outcome, log, tail, attention, unsealed = reply
        parts, end = [], int(tail)
        for append in self._appends:
            end += len(append.payload.data)
            parts.append([outcome, log, end, b"", attention, unsealed])
        return parts

    def set_exception(self, error: BaseException) -> None:
        is_unknown = len(self._appends) > 1 and str(error).startswith(NO_SCRIPT)
        self._together.learn(script_is_known=not is_unknown)
        for receiver in self._receivers:
            if not receiver.done():
                receiver.set_exception(error)
