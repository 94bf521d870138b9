"""The hot tier as far as it decides what of a stream is kept."""

from dataclasses import dataclass
from typing import Literal

from tiering.cold.keys import snapshots_of
from tiering.errors import Conflict, Gone, Unavailable
from tiering.hot.keys import stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.replies import view_refusal
from tiering.hot.sealing import piece_of
from tiering.offset import Offset
from tiering.snapshot import Snapshot

_PIECES_AT_ONCE = 1000


class OtherLog(Exception):
    """The stream goes on in another log by now."""


class TooLate(Unavailable):
    """What was to be put in force is not there any more."""

    def __init__(self) -> None:
        super().__init__("The snapshot took too long to arrive.")


@dataclass(frozen=True, slots=True)
class Trimmed:
    """`since_ms`: how long the oldest of what must wait has been waiting."""

    outcome: Literal["ok", "waiting", "lent", "unnoted"]
    since_ms: int = 0


class RetentionDesk:
    """What is no longer needed, or may turn out so, is recorded in `shed` with the time that its
    grace begins; only what stands there is ever removed."""

    def __init__(self, pipe: Pipe, *, is_cached: bool = False) -> None:
        self._pipe = pipe
        self._is_cached = is_cached

    async def intend(self, name: str, key: str, until_ms: int) -> None:
        """An object that will be written: if it is never put in force, it goes after that time."""
        await self._pipe.call("ZADD", stream_keys(name).shed, until_ms, key)

    async def look_behind(self, name: str, position: int, since_ms: int) -> None:
        """Nothing before the position is retained, since that time."""
        await self._pipe.call("ZADD", stream_keys(name).horizon, since_ms, position)

    async def publish(self, name: str, log: int, snapshot: Snapshot) -> bool:
        """False when the very same is in force already."""
        keys = stream_keys(name)
        reply = await self._pipe.run(
            "publish",
            (keys.meta, keys.shed, keys.horizon, keys.live, keys.recalls),
            log,
            snapshot.position,
            snapshot.encode(),
            snapshot.key,
            snapshots_of(name),
            "1" if self._is_cached else "",
        )
        match reply:
            case [b"ok"]:
                return True
            case [b"same"]:
                return False
            case [b"other"]:
                raise Conflict("There is another snapshot at this offset.")
            case [b"beyond"]:
                raise Conflict("The snapshot's offset lies beyond the end of the stream.")
            case [b"behind", earliest]:
                raise Gone(
                    "The snapshot's offset lies before the retained range.",
                    Offset(log, int(earliest)),
                )
            case [b"other_log"]:
                raise OtherLog
            case [b"late"]:
                raise TooLate
            case _:
                raise view_refusal(reply)

    async def trim(self, name: str, until_ms: int) -> Trimmed:
        """Everything that was behind the retained range at that time is shed."""
        keys = stream_keys(name)
        names = (keys.meta, keys.sealed, keys.cuts, keys.loans, keys.shed, keys.horizon)
        while True:
            match await self._pipe.run("trim", names, until_ms, _PIECES_AT_ONCE):
                case [b"more"]:
                    continue
                case [b"waiting", since]:
                    return Trimmed("waiting", int(since))
                case [b"lent"]:
                    return Trimmed("lent")
                case [b"unnoted"]:
                    return Trimmed("unnoted")
                case _:
                    return Trimmed("ok")

    async def shed(self, name: str) -> dict[str, int]:
        """What is to be removed, each with the time that its grace begins: snapshots by their
        keys, pieces as they were listed."""
        flat = await self._pipe.call("ZRANGE", stream_keys(name).shed, 0, -1, "WITHSCORES")
        return {m.decode(): int(score) for m, score in zip(flat[::2], flat[1::2], strict=True)}

    async def doom(self, name: str, members: list[str]) -> list[str]:
        """Of these, what nobody needs, and nobody can put in force any more."""
        keys = stream_keys(name)
        names = (keys.meta, keys.sealed, keys.loans, keys.shed)
        _, *doomed = await self._pipe.run("doom", names, snapshots_of(name), *members)
        return [member.decode() for member in doomed]

    async def forget(self, name: str, members: list[str]) -> None:
        await self._pipe.call("ZREM", stream_keys(name).shed, *members)

    def keys_of(self, name: str, member: str) -> tuple[str, ...]:
        """The objects that a record stands for, bodies first."""
        if member.startswith(snapshots_of(name)):
            return (member,)
        piece = piece_of(name, member)
        return piece.key, piece.index_key
