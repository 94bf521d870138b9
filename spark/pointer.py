"""JSON Pointer (RFC 6901): where in a message something is. Only what leads there is parsed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from spark import half_pairs
from tiering.errors import Refused
from tiering.messages import without_half_pairs

WHITE = b" \t\r\n"

_STRAY_TILDE = re.compile("~(?![01])")
_INDEX = re.compile("0|[1-9][0-9]*")
_object = msgspec.json.Decoder(dict[str, msgspec.Raw])
_array = msgspec.json.Decoder(list[msgspec.Raw])
_value = msgspec.json.Decoder(msgspec.Raw)


@dataclass(frozen=True, slots=True)
class Pointer:
    text: str

    @classmethod
    def parse(cls, text: str) -> "Pointer":
        if text and not text.startswith("/"):
            raise Refused(f"{text!r} is no JSON pointer: it begins with /")
        if _STRAY_TILDE.search(text):
            raise Refused(f"{text!r} is no JSON pointer: ~ is written ~0, and / in a name ~1")
        return cls(text)

    @property
    def steps(self) -> list[str]:
        names = self.text.split("/")[1:]
        return [name.replace("~1", "/").replace("~0", "~") for name in names]

    def find(self, message: bytes) -> bytes | None:
        """What is there, as it was written; None when nothing is. For what is not JSON msgspec
        has its errors."""
        found: bytes | msgspec.Raw = message.strip(WHITE)
        for step in self.steps:
            inner = _step(bytes(found), step)
            if inner is None:
                return None
            found = inner
        return bytes(found)


def _step(message: bytes, step: str) -> bytes | msgspec.Raw | None:
    if message[:1] == b"{":
        return _members(message).get(step)
    if message[:1] == b"[" and _INDEX.fullmatch(step):
        elements = _elements(message)
        return elements[int(step)] if int(step) < len(elements) else None
    return None


def _members(message: bytes) -> Mapping[str, bytes | msgspec.Raw]:
    try:
        return _object.decode(message)
    except msgspec.DecodeError:
        if _is_refused_for_nothing(message):
            return half_pairs.members(message)
        raise


def _elements(message: bytes) -> Sequence[bytes | msgspec.Raw]:
    try:
        return _array.decode(message)
    except msgspec.DecodeError:
        if _is_refused_for_nothing(message):
            return half_pairs.elements(message)
        raise


def _is_refused_for_nothing(message: bytes) -> bool:
    """Whether it is JSON all the same."""
    harmless = without_half_pairs(message)
    return harmless != message and bool(_value.decode(harmless))


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A message that has this value at that place removes its key."""

    pointer: Pointer
    value: bytes

    @classmethod
    def parse(cls, text: str) -> "Tombstone":
        """`/deleted`, which means `/deleted=true`, or `/value=null`, `/op="delete"`."""
        place, equals, value = text.partition("=")
        try:
            wanted = msgspec.json.decode(value if equals else "true")
        except msgspec.DecodeError:
            raise Refused(f'{value!r} is not JSON: write /value=null or /op="delete"') from None
        return cls(Pointer.parse(place), msgspec.json.encode(wanted))

    @property
    def text(self) -> str:
        return f"{self.pointer.text}={self.value.decode()}"

    def removes(self, message: bytes) -> bool:
        found = self.pointer.find(message)
        return found is not None and _same(found, self.value)


def _same(found: bytes, wanted: bytes) -> bool:
    try:
        return found == wanted or msgspec.json.encode(msgspec.json.decode(found)) == wanted
    except (msgspec.DecodeError, RecursionError):
        return False
