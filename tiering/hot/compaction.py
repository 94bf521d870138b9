"""The hot tier as a compaction sees it: which pieces there are, and the commit."""

from collections.abc import Sequence
from typing import Literal

from tiering.cold.keys import Piece
from tiering.hot.keys import stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import sealed_member

Outcome = Literal["ok", "moved", "late", "missing", "hidden", "there"]


class CompactionDesk:
    """Whoever changed the history first wins: a commit that comes too late changes nothing."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe

    async def cuts(self, name: str) -> frozenset[int]:
        """Where chunks end that are stored in parts, or not yet."""
        found = await self._pipe.call("ZRANGE", stream_keys(name).cuts, 0, -1)
        return frozenset(int(position) for position in found)

    async def intend(self, piece: Piece, until_ms: int) -> Outcome:
        """Before anything of the piece is written."""
        keys = stream_keys(piece.name)
        reply = await self._pipe.run(
            "intend", (keys.meta, keys.sealed, keys.shed), sealed_member(piece), until_ms
        )
        return _outcome(reply)

    async def compact(self, piece: Piece, old: Sequence[Piece]) -> Outcome:
        """Once it is stored, bodies and index."""
        keys = stream_keys(piece.name)
        reply = await self._pipe.run(
            "compact",
            (keys.meta, keys.sealed, keys.cuts, keys.shed),
            sealed_member(piece),
            piece.start,
            piece.end,
            piece.kind,
            *(sealed_member(one) for one in old),
        )
        return _outcome(reply)


def _outcome(reply: list[bytes]) -> Outcome:
    outcome: Outcome = reply[0].decode()  # type: ignore[assignment]
    return outcome
