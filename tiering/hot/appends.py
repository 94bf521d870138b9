"""How an append is put to the scripts."""

from functools import lru_cache

from tiering.hot.connection import Argument
from tiering.hot.keys import stream_keys
from tiering.hot.terms import Append

# The most that travels with a wake-up.
INLINE_BYTES = 16 * 1024


def is_plain(append: Append) -> bool:
    """Nothing but data, and little of it: whether it is taken depends on the stream alone."""
    if append.closes or append.seq or append.producer is not None:
        return False
    return 0 < len(append.payload.data) <= INLINE_BYTES


@lru_cache(maxsize=4096)
def append_keys(name: str) -> tuple[str, ...]:
    return stream_keys(name).of_append


@lru_cache(maxsize=4096)
def keys_together(name: str) -> tuple[str, ...]:
    return stream_keys(name).of_appends_together


def append_words(
    append: Append, data: bytes | memoryview, largest_stream: int, run: str
) -> tuple[Argument, ...]:
    """What a single append says after its keys."""
    producer = append.producer
    return (
        data,
        append.media,
        append.payload.lengths,
        "1" if append.closes else "",
        append.seq,
        producer.id if producer else "",
        producer.epoch if producer else "",
        producer.seq if producer else "",
        largest_stream,
        INLINE_BYTES,
        run,
    )
