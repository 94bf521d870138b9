"""The messages of a stretch of a stream, as arrays: no message is touched one by one."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tiering.cold import index as indexes
from tiering.cold.cover import Slice
from tiering.cold.index import Index
from tiering.errors import Corrupt, Invalid

Numbers = npt.NDArray[np.int64]
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Messages:
    """`data` are the stored bytes from `bounds[0]` to `bounds[-1]`. `is_json`: each message ends
    with one byte that is not its own (what byte that is, is not said). `times_ms` None: unknown."""

    bounds: Numbers
    data: Bytes
    times_ms: Numbers | None
    is_json: bool

    @property
    def count(self) -> int:
        return len(self.bounds) - 1

    def since(self, time_ms: int) -> "Messages":
        """From the first one on that was appended at that time or later. Where the clock was put
        back, some that follow were not."""
        if self.times_ms is None or not self.count or self.times_ms[0] >= time_ms:
            return self
        recent = np.flatnonzero(self.times_ms >= time_ms)
        return self._from(int(recent[0]) if len(recent) else self.count)

    def _from(self, first: int) -> "Messages":
        assert self.times_ms is not None
        bounds = self.bounds[first:]
        skipped = int(bounds[0] - self.bounds[0])
        return Messages(bounds, self.data[skipped:], self.times_ms[first:], self.is_json)


def decode(index: Index, body: bytes, wanted: Slice, *, is_json: bool) -> Messages:
    """The messages of a slice. The object must be what its index describes."""
    key = wanted.piece.key
    if (index.start, index.end) != (wanted.piece.start, wanted.piece.end):
        raise Corrupt(f"{key} is not what its index describes.")
    if len(body) != index.body_bytes or indexes.checksums(body) != index.checksums:
        raise Corrupt(f"{key} is not what was written.")
    appends = np.frombuffer(index.append_lengths, "<u4")
    counts = _counts(index, len(appends))
    bounds = np.concatenate(([index.start], index.start + np.cumsum(_lengths(index, counts))))
    times = np.frombuffer(index.append_times_ms, "<i8")
    if bounds[-1] != index.end or len(times) != len(appends):
        raise Corrupt(f"{wanted.piece.index_key} contradicts itself.")
    stored = np.frombuffer(body, np.uint8)[1 if is_json else 0 :]
    all_of_it = Messages(bounds, stored, np.repeat(times, counts), is_json)
    return _clipped(all_of_it, wanted)


def _counts(index: Index, appends: int) -> Numbers:
    """How many messages each append has."""
    counts = np.ones(appends, np.int64)
    for number, packed in index.message_lengths.items():
        counts[number] = len(packed) // 4
    return counts


def _lengths(index: Index, counts: Numbers) -> npt.NDArray[Any]:
    """Of all messages: an append that is not a batch is one message."""
    appends = np.frombuffer(index.append_lengths, "<u4")
    if not index.message_lengths:
        return appends.astype(np.int64)
    is_batch = np.zeros(len(appends), bool)
    is_batch[list(index.message_lengths)] = True
    in_batch = np.repeat(is_batch, counts)
    lengths = np.empty(len(in_batch), np.int64)
    lengths[~in_batch] = appends[~is_batch]
    packed = b"".join(each for _, each in sorted(index.message_lengths.items()))
    lengths[in_batch] = np.frombuffer(packed, "<u4")
    return lengths


def _clipped(all_of_it: Messages, wanted: Slice) -> Messages:
    """A byte stream can be read and forked from anywhere, so that only a part of an append is
    there to see; a message of a JSON stream is there or not."""
    bounds = all_of_it.bounds
    if wanted.start == bounds[0] and wanted.end == bounds[-1]:
        return all_of_it
    first = int(np.searchsorted(bounds, wanted.start, "right")) - 1
    last = int(np.searchsorted(bounds, wanted.end, "left"))
    is_whole = bounds[first] == wanted.start and bounds[last] == wanted.end
    if all_of_it.is_json and not is_whole:
        raise Invalid(f"{wanted.start} or {wanted.end} lies inside a message.")
    assert all_of_it.times_ms is not None
    data = all_of_it.data[wanted.start - bounds[0] : wanted.end - bounds[0]]
    kept = np.clip(bounds[first : last + 1], wanted.start, wanted.end)
    return Messages(kept, data, all_of_it.times_ms[first:last], all_of_it.is_json)
