"""How far each stream was exported. The file is for readers too, see docs/spark.md."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from spark.export.planning import Due
from tiering.errors import Refused
from tiering.offset import Offset

VERSION = 1


class Pending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is being put in place: from where, to where, and how far that leads."""

    files: tuple[tuple[str, str], ...] = ()
    streams: dict[str, str] = {}


Ranges = dict[str, tuple[tuple[str, str], ...]]


class State(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every message before the offsets in `streams` is in place, whatever is pending, but for
    those in `gaps`. `fields` None: there are no files yet."""

    version: int
    deployment: str
    fields: str | None = None
    streams: dict[str, str] = {}
    gaps: Ranges = {}
    superseded: Ranges = {}
    pending: Pending = Pending()

    def reached(self, name: str) -> Offset | None:
        text = self.streams.get(name)
        return None if text is None else Offset.parse(text)

    def intending(self, files: Sequence[tuple[str, str]], reached: Mapping[str, Offset]) -> "State":
        streams = {name: str(offset) for name, offset in reached.items()}
        return msgspec.structs.replace(self, pending=Pending(tuple(files), streams))

    def noting(self, streams: Iterable[Due]) -> "State":
        gaps, superseded = dict(self.gaps), dict(self.superseded)
        for one in streams:
            for ranges, found in ((gaps, one.gap), (superseded, one.superseded)):
                if found is not None:
                    start, end = map(str, found)
                    ranges[one.name] = (*ranges.get(one.name, ()), (start, end))
        return msgspec.structs.replace(self, gaps=gaps, superseded=superseded)

    def settled(self) -> "State":
        streams = self.streams | self.pending.streams
        return msgspec.structs.replace(self, streams=streams, pending=Pending())

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


class _Version(msgspec.Struct):
    version: int


def decode(data: bytes, path: str) -> State:
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise Refused(f"{path} has format version {version}; this ds-spark knows {VERSION}")
        state = msgspec.json.decode(data, type=State)
    except msgspec.DecodeError as error:
        raise Refused(f"{path} is not the state of an export: {error}") from error
    for text in (*state.streams.values(), *state.pending.streams.values()):
        if Offset.parse(text) is None:
            raise Refused(f"{path} is not the state of an export: {text!r} is no offset")
    return state
