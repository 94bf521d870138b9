"""What the scripts answer, in words of ours."""

from functools import lru_cache

import msgspec

from tiering import snapshot as snapshots
from tiering.cold.keys import Piece
from tiering.errors import (
    Conflict,
    Fenced,
    Invalid,
    NotFound,
    SequenceGap,
    StreamClosed,
    TooLarge,
)
from tiering.hot.terms import Append, Expired, Hidden, Remains
from tiering.offset import Offset
from tiering.stream import Ancestor, ContentType, Lifetime, Stream, View, next_line

STREAM_TOO_LARGE = "The stream would grow beyond the largest size this server allows."

_content_type = lru_cache(maxsize=1024)(ContentType)


def ancestors(chain: bytes | str) -> tuple[Ancestor, ...]:
    return msgspec.json.decode(chain, type=tuple[Ancestor, ...]) if chain else ()


def remains(name: str, log: bytes, chain: bytes) -> Remains:
    return Remains(name, int(log), ancestors(chain))


def view_refusal(reply: list[bytes]) -> Exception:
    return _absence(reply) or unexpected("look", reply)


def append_refusal(append: Append, reply: list[bytes]) -> Exception:
    match reply:
        case [b"closed", log, tail]:
            return StreamClosed(Offset(int(log), int(tail)))
        case [b"other_type", content_type]:
            return Conflict(f"The stream's content type is {content_type.decode()}.")
        case [b"stale_epoch", current]:
            return Fenced(int(current))
        case [b"epoch_start"]:
            return Invalid("A new producer epoch starts with Producer-Seq 0.")
        case [b"gap", expected]:
            assert append.producer is not None
            return SequenceGap(int(expected), append.producer.seq)
        case [b"seq_regression", last]:
            return Conflict(f"Stream-Seq must come after {last.decode(errors='replace')!r}.")
        case [b"too_large"]:
            return TooLarge(STREAM_TOO_LARGE)
        case _:
            return _absence(reply) or unexpected("append", reply)


def deletion_refusal(reply: list[bytes]) -> Exception:
    match reply:
        case [b"already_hidden"]:
            return Hidden()
        case [b"other_log"]:
            return Conflict("The stream was replaced while it was being deleted.")
        case _:
            return _absence(reply) or unexpected("delete", reply)


def _absence(reply: list[bytes]) -> Exception | None:
    match reply:
        case [b"missing"]:
            return NotFound("There is no such stream.")
        case [b"hidden"]:
            return Hidden()
        case [b"expired"]:
            return Expired()
        case _:
            return None


def unexpected(verb: str, reply: object) -> RuntimeError:
    return RuntimeError(f"the {verb} script answered {reply!r}")


def _int_or_none(text: bytes) -> int | None:
    return int(text) if text else None


def view(name: str, token: Offset | None, facts: list[bytes]) -> View:
    grid, now, log, chain, content_type, ttl, expires, expires_text, deadline = facts[:9]
    closed, tail, earliest, sealed, base, position, chunk_end = facts[9:16]
    object_start, object_log, on_boundary, snapshot = facts[16:]
    stream = Stream(
        name=name,
        log=int(log),
        ancestors=ancestors(chain),
        content_type=_content_type(content_type.decode()),
        lifetime=Lifetime(_int_or_none(ttl), _int_or_none(expires), expires_text.decode()),
        deadline_ms=_int_or_none(deadline),
        closed=closed == b"1",
        tail=int(tail),
        earliest=int(earliest),
        sealed=int(sealed),
        base=int(base),
        grid=int(grid),
        now_ms=int(now),
        snapshot=snapshots.decode(snapshot),
    )
    start = int(position) if token is None else stream.position_of(token)
    if not on_boundary:
        raise Invalid("The offset lies inside a message.")
    end = stream.tail if chunk_end == b"-1" else int(chunk_end)
    chunk = Piece("chunk", name, int(object_log), int(object_start), end) if object_log else None
    return View(
        stream,
        start,
        end,
        chunk,
        needs_boundary_check=on_boundary == b"?",
        ends_at_cut=_is_cut(chunk_end, chunk, stream.grid),
    )


def _is_cut(chunk_end: bytes, chunk: Piece | None, grid: int) -> bool:
    if chunk is not None:
        return chunk.end >= next_line(chunk.start, grid)
    return chunk_end != b"-1"
