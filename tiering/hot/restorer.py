"""Puts streams back into an empty hot tier."""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from tiering.cold.index import Producers
from tiering.cold.keys import Piece
from tiering.cold.manifest import Manifest
from tiering.hot.keys import stream_keys
from tiering.hot.pipe import Pipe
from tiering.hot.sealing import sealed_member
from tiering.stream import ContentType, next_line


@dataclass(frozen=True, slots=True)
class Recovered:
    """A stream as of its sealed end, which is its tail now."""

    manifest: Manifest
    pieces: list[Piece]
    producers: Producers
    seq: str
    written_ms: int


class Restorer:
    def __init__(self, pipe: Pipe, run: str) -> None:
        self._pipe = pipe
        self._run = run

    async def end_of(self, name: str) -> int | None:
        """Where a stream ends that is there already."""
        tail = await self._pipe.call("HGET", stream_keys(name).meta, "tail")
        return None if tail is None else int(tail)

    async def restore(self, stream: Recovered, now_ms: int) -> None:
        """A stream that is there already stays as it is."""
        keys = stream_keys(stream.manifest.name)
        cuts, open_chunk = chunk_ends(stream.pieces, stream.manifest)
        state = {
            "meta": self._meta(stream, open_chunk, now_ms),
            "producers": {id: f"{epoch}:{seq}" for id, (epoch, seq) in stream.producers.items()},
            "cuts": [str(cut) for cut in cuts],
            "sealed": [[str(piece.start), sealed_member(piece)] for piece in stream.pieces],
        }
        names = (keys.meta, keys.producers, keys.folded, keys.cuts, keys.sealed)
        await self._pipe.run("restore", names, msgspec.json.encode(state))

    def _meta(self, stream: Recovered, open_chunk: int, now_ms: int) -> dict[str, str]:
        manifest = stream.manifest
        end = str(manifest.sealed)
        return {
            "log": str(manifest.log),
            "chain": _chain(manifest),
            "type": manifest.content_type,
            "media": ContentType(manifest.content_type).media,
            "grid": str(manifest.grid),
            "created": str(manifest.created_ms),
            "ttl": _text(manifest.ttl_secs),
            "expires": _text(manifest.expires_ms),
            "expires_text": manifest.expires_text,
            "deadline": _deadline(manifest, now_ms),
            "closed": "1" if manifest.closed else "",
            "closed_by": manifest.closed_by,
            "tail": end,
            "base": end,
            "sealed": end,
            "sealed_seq": stream.seq,
            "seq": stream.seq,
            "earliest": str(manifest.earliest),
            "snapshot": manifest.snapshot.encode().decode() if manifest.snapshot else "",
            "written": str(stream.written_ms),
            "chunk": str(open_chunk),
            "manifest": manifest.mark,
            "run": self._run,
            "hidden": "1" if manifest.deleted else "",
            "origin": manifest.parent.name if manifest.parent else "",
            "border": str(manifest.border),
            "lent": "0",
        }


def chunk_ends(pieces: Sequence[Piece], manifest: Manifest) -> tuple[list[int], int]:
    """The ends of chunks that are stored in parts, and where the chunk that is open begins.

    No part reaches across the end of a chunk.
    """
    retained = max(manifest.border, manifest.earliest)
    cuts, chunk = [], pieces[0].start if pieces else retained
    for piece in pieces:
        if piece.kind == "chunk":
            chunk = piece.end
        elif piece.end >= next_line(chunk, manifest.grid):
            cuts.append(piece.end)
            chunk = piece.end
    # What forks read through the stream may end before what it retains.
    is_apart = pieces and pieces[-1].end < retained
    return cuts, retained if is_apart else chunk


def _chain(manifest: Manifest) -> str:
    return msgspec.json.encode(manifest.ancestors).decode() if manifest.ancestors else ""


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _deadline(manifest: Manifest, now_ms: int) -> str:
    """An idle window begins anew; what is there for forks alone goes with them."""
    if manifest.deleted:
        return ""
    if manifest.ttl_secs is not None:
        return str(now_ms + manifest.ttl_secs * 1000)
    return _text(manifest.expires_ms)
