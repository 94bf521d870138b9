"""The beginning of a piece, as a piece of its own."""

from dataclasses import replace

import msgspec

from tiering.cold import index as indexes
from tiering.cold.index import Index
from tiering.cold.keys import Piece
from tiering.messages import body, pack_lengths, unpack_lengths
from tiering.stream import ContentType


def last_whole_append(index: Index) -> int:
    """Where the last append ends that lies in the piece to its end."""
    if not index.divides_append:
        return index.end
    return [index.start, *index.append_ends()][-2]


def clip(
    piece: Piece, index: Index, content: bytes, content_type: ContentType, end: int
) -> tuple[Piece, Index, bytes]:
    """A piece that is divided inside its last append, without what it has of that append."""
    stored = content[1:] if content_type.is_json else content
    kept = stored[: end - piece.start]
    shorter = body(content_type, kept)
    lengths = unpack_lengths(index.append_lengths)[:-1]
    count = len(lengths)
    clipped = msgspec.structs.replace(
        index,
        end=end,
        body_bytes=len(shorter),
        checksums=indexes.checksums(shorter),
        append_lengths=pack_lengths(lengths),
        append_times_ms=index.append_times_ms[: 8 * count],
        message_lengths={n: each for n, each in index.message_lengths.items() if n < count},
        divides_append=False,
    )
    return replace(piece, kind="part", end=end), clipped, shorter
