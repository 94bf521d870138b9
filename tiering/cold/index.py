"""What is known of a sealed piece beside its bytes. A pure function of the hot tier's records."""

import hashlib
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec

from tiering.errors import Corrupt
from tiering.messages import pack_lengths, unpack_lengths

VERSION = 1
SLAB_BYTES = 1024 * 1024

_MAGIC = b"DSI"

Producers = Mapping[str, tuple[int, int]]


class Record(msgspec.Struct, frozen=True):
    """One append, as the hot tier noted it. `messages` packs the lengths when there are several."""

    end: int
    time_ms: int
    messages: bytes = b""
    producer: str = ""
    seq: str = ""
    has_data: bool = True

    @property
    def begin(self) -> int:
        """Where the append began, as far as its messages tell: a single one is never divided."""
        return self.end - (sum(unpack_lengths(self.messages)) if self.messages else 1)

    def message_ends(self) -> list[int]:
        if not self.messages:
            return [self.end]
        return _ends(self.begin, unpack_lengths(self.messages))

    @classmethod
    def parse(cls, entry_id: bytes, fields: Sequence[bytes]) -> "Record":
        """Most are plain: thousands of them make up one chunk of small appends."""
        end = int(entry_id[:-2])
        if len(fields) == 2:
            return cls(end, int(fields[1]))
        values = dict(zip(fields[::2], fields[1::2], strict=True))
        return cls(
            end=end,
            time_ms=int(values[b"t"]),
            messages=values.get(b"m", b""),
            producer=values.get(b"p", b"").decode(),
            seq=values.get(b"s", b"").decode(),
            has_data=entry_id.endswith(b"-0"),
        )


class Index(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lengths and times are packed: an index of many small appends stays small in memory."""

    start: int
    end: int
    body_bytes: int
    checksums: list[bytes]
    append_lengths: bytes
    append_times_ms: bytes
    message_lengths: dict[int, bytes]
    producers: dict[str, tuple[int, int]]
    seq: str
    divides_append: bool

    def append_ends(self) -> list[int]:
        return _ends(self.start, unpack_lengths(self.append_lengths))

    def message_ends(self) -> list[int]:
        """Positions of all message boundaries after `start`."""
        return _ends(self.start, self._all_message_lengths())

    def times_ms(self) -> tuple[int, ...]:
        return struct.unpack(f"<{len(self.append_times_ms) // 8}Q", self.append_times_ms)

    def is_boundary(self, position: int) -> bool:
        ends = self.message_ends()
        found = bisect_left(ends, position)
        return position == self.start or (found < len(ends) and ends[found] == position)

    def _all_message_lengths(self) -> Iterator[int]:
        for number, length in enumerate(unpack_lengths(self.append_lengths)):
            packed = self.message_lengths.get(number)
            yield from unpack_lengths(packed) if packed else (length,)

    def encode(self) -> bytes:
        packed = zlib.compress(msgspec.msgpack.encode(self), 1)
        return b"%b%c%b" % (_MAGIC, VERSION, packed)


def _ends(start: int, lengths: Iterable[int]) -> list[int]:
    return list(accumulate(lengths, initial=start))[1:]


def decode(data: bytes, key: str) -> Index:
    if not data.startswith(_MAGIC) or len(data) < 4:
        raise Corrupt(f"{key} is not an index.")
    if data[3] != VERSION:
        raise Corrupt(f"{key} has format version {data[3]}; this server knows {VERSION}.")
    try:
        return msgspec.msgpack.decode(zlib.decompress(data[4:]), type=Index)
    except (zlib.error, msgspec.DecodeError) as error:
        raise Corrupt(f"{key} is damaged: {error}.") from error


def build(
    start: int,
    end: int,
    body: bytes,
    all_records: Sequence[Record],
    producers_before: Producers,
    seq_before: str,
) -> Index:
    """Whoever builds it gets the same bytes; Redis tells producers in any order."""
    records = clip(all_records, start, end)
    ends = [start, *(record.end for record in records)]
    return Index(
        start=start,
        end=end,
        body_bytes=len(body),
        checksums=checksums(body),
        append_lengths=pack_lengths([after - before for before, after in pairwise(ends)]),
        append_times_ms=struct.pack(f"<{len(records)}Q", *(r.time_ms for r in records)),
        message_lengths={n: r.messages for n, r in enumerate(records) if r.messages},
        producers=dict(sorted(fold(producers_before, records).items())),
        seq=next((record.seq for record in reversed(records) if record.seq), seq_before),
        divides_append=all_records[-1].end > end,
    )


def clip(records: Iterable[Record], start: int, end: int) -> list[Record]:
    """The records of `[start, end)`. A chunk may end between two messages of one append; what an
    append says of its producer holds only once the whole of it is there."""
    return [_clipped(record, start, end) for record in records]


def _clipped(record: Record, start: int, end: int) -> Record:
    if record.end <= end and record.begin >= start:
        return record
    lengths = unpack_lengths(record.messages)
    ends = _ends(record.begin, lengths)
    kept = [length for stop, length in zip(ends, lengths, strict=True) if start < stop <= end]
    messages = pack_lengths(kept) if len(kept) > 1 else b""
    if record.end <= end:
        return msgspec.structs.replace(record, messages=messages)
    return msgspec.structs.replace(record, end=end, messages=messages, producer="", seq="")


def fold(producers: Producers, records: Iterable[Record]) -> dict[str, tuple[int, int]]:
    """Each producer's last accepted epoch and sequence after these records."""
    folded = dict(producers)
    for record in records:
        if record.producer:
            epoch, seq, producer = record.producer.split(":", 2)
            folded[producer] = (int(epoch), int(seq))
    return folded


def fold_closer(producers: Producers, closed_by: str) -> dict[str, tuple[int, int]]:
    """A close without data is in no index."""
    closer = Record(0, 0, producer=closed_by)
    return fold(producers, [closer])


def slabs(body: bytes) -> Iterable[memoryview]:
    """The stretches of a body that are fetched, checked and kept one by one."""
    view = memoryview(body)
    return (view[start : start + SLAB_BYTES] for start in range(0, len(body), SLAB_BYTES))


def checksums(body: bytes) -> list[bytes]:
    return [checksum(slab) for slab in slabs(body)]


def checksum(slab: bytes | memoryview) -> bytes:
    return hashlib.blake2b(slab, digest_size=16).digest()
