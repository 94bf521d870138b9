"""The fields of JSON messages, parsed by Arrow in the worker."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.json as pj

from spark.messages import Messages, Numbers
from tiering.errors import Corrupt, Refused

_EMPTY = b"{}\n"
_OBJECT, _NEWLINE = b"{\n"
_WHITE = bytes.maketrans(b"\r\n", b"  ")

Flags = npt.NDArray[np.bool_]


class Fields:
    """A message that is no object, or in which a field is not of its type, has nulls for all of
    them, and its `corrupt` is true."""

    def __init__(self, schema: pa.Schema, *, fails_fast: bool) -> None:
        self._schema = schema
        self._on_the_wire = pa.schema([_on_the_wire(field) for field in schema])
        self._fails_fast = fails_fast

    def parse(self, messages: Messages) -> tuple[list[pa.Array], pa.Array]:
        """The columns, and which messages were corrupt."""
        is_object = _objects(messages)
        if not is_object.any():
            columns = [pa.nulls(messages.count, field.type) for field in self._schema]
        else:
            columns = self._columns(messages, is_object)
        is_corrupt = ~is_object if messages.is_json else is_object
        if self._fails_fast and is_corrupt.any():
            place = messages.bounds[np.argmax(is_corrupt)]
            raise Corrupt(f"The message at {place} does not fit the schema.")
        return columns, pa.array(is_corrupt)

    def _columns(self, messages: Messages, is_object: Flags) -> list[pa.Array]:
        """Takes the flag from those objects that do not fit."""
        lines, ends = _lines(messages, is_object)
        tables = list(self._tables(lines, ends, is_object))
        table = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        return [_whole(column) for column in table.columns]

    def _tables(self, lines: memoryview, ends: Numbers, fits: Flags) -> Iterator[pa.Table]:
        """Arrow does not tell which line it did not like: they are halved until it stands alone."""
        try:
            yield self._parse(lines[ends[0] : ends[-1]], len(fits))
        except pa.ArrowInvalid:
            half = len(fits) // 2
            if half == 0:
                fits[0] = False
                yield self._parse(memoryview(_EMPTY), 1)
                return
            yield from self._tables(lines, ends[: half + 1], fits[:half])
            yield from self._tables(lines, ends[half:], fits[half:])

    def _parse(self, lines: memoryview, count: int) -> pa.Table:
        table = pj.read_json(
            pa.BufferReader(pa.py_buffer(lines)),
            pj.ReadOptions(use_threads=False, block_size=len(lines) + 1),
            pj.ParseOptions(explicit_schema=self._on_the_wire, unexpected_field_behavior="ignore"),
        )
        assert table.num_rows == count
        return table if self._on_the_wire.equals(self._schema) else table.cast(self._schema)


def _objects(messages: Messages) -> Flags:
    """No white space stands around a message. Arrow breaks down over a bare `null`."""
    if not messages.is_json or not messages.count:
        return np.zeros(messages.count, bool)
    starts = messages.bounds[:-1] - messages.bounds[0]
    flags: Flags = messages.data[starts] == _OBJECT
    return flags


def _lines(messages: Messages, is_object: Flags) -> tuple[memoryview, Numbers]:
    """One message a line, and where each begins; `{}` for one that is no object."""
    ends = messages.bounds - messages.bounds[0]
    stored = bytearray(messages.data)
    if b"\n" in stored or b"\r" in stored:
        stored = stored.translate(_WHITE)
    np.frombuffer(stored, np.uint8)[ends[1:] - 1] = _NEWLINE
    if is_object.all():
        return memoryview(stored), ends
    lengths = np.where(is_object, np.diff(ends), len(_EMPTY))
    lines = (
        stored[start:end] if fits else _EMPTY
        for start, end, fits in zip(ends[:-1], ends[1:], is_object, strict=True)
    )
    return memoryview(b"".join(lines)), np.concatenate(([0], np.cumsum(lengths)))


def _whole(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _on_the_wire(field: pa.Field) -> pa.Field:
    """What Arrow's parser is told to expect: it knows no dates, but can cast to them."""
    kind = field.type
    if pa.types.is_date32(kind):
        return field.with_type(pa.string())
    if pa.types.is_struct(kind):
        return field.with_type(pa.struct([_on_the_wire(kind.field(n)) for n in range(len(kind))]))
    if pa.types.is_list(kind):
        return field.with_type(pa.list_(_on_the_wire(kind.value_field)))
    if not _is_known(kind):
        raise Refused(f"{field.name}: Arrow reads no {kind} from JSON; use STRING, or the payload")
    return field


def _is_known(kind: pa.DataType) -> bool:
    """Binary is left out: Spark's own reader takes it for Base64, Arrow for the text itself."""
    known = (
        pa.types.is_boolean,
        pa.types.is_integer,
        pa.types.is_floating,
        pa.types.is_decimal,
        pa.types.is_string,
        pa.types.is_timestamp,
    )
    return any(is_of(kind) for is_of in known)
