"""What one message does to a keyed state."""

import re
from collections.abc import Callable
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType

from spark import half_pairs
from spark.folds import STATE, Fold
from spark.pointer import WHITE, Pointer, Tombstone
from tiering.messages import without_half_pairs

_INSERT = b',"headers":{"operation":"insert"}}'
_WRITES = frozenset({"insert", "update", "upsert", "set", "append"})
_REMOVES = frozenset({"delete", "remove"})
_OPERATIONS = frozenset({"insert", "update", "upsert", "delete"})
_OLD_OPERATIONS = frozenset({"set", "append", "remove"})
_CONTROLS = frozenset({"snapshot-start", "snapshot-end"})
_WHITE = bytes.maketrans(b"\r\n", b"  ")
_PLAIN_KEY = re.compile(rb"-?[0-9]+|true|false")


class Bad(Exception):
    """The message cannot be folded; says why."""


@dataclass(frozen=True, slots=True)
class Write:
    """`line` is what a snapshot says of the key, on one line; None removes it."""

    key: bytes
    line: bytes | None


class Reset:
    """What came before does not count."""


RESET = Reset()
Change = Write | Reset | None
"""None: a message that changes nothing."""

Reading = Callable[[bytes], Change]


def reading(fold: Fold) -> Reading:
    if fold.name == STATE:
        return _guarded(_state)
    assert fold.key is not None
    return _guarded(_LastByKey(fold.key, fold.tombstone))


def _guarded(read: Reading) -> Reading:
    def guarded(message: bytes) -> Change:
        try:
            return read(message)
        except msgspec.ValidationError as error:
            raise Bad(str(error)) from None
        except (msgspec.DecodeError, ValueError) as error:
            raise Bad(f"it is not JSON, or not UTF-8: {error}") from None
        except RecursionError:
            raise Bad("it is nested too deeply") from None

    return guarded


class _Headers(msgspec.Struct, frozen=True):
    operation: str | UnsetType = UNSET
    control: str | UnsetType = UNSET


class _Message(msgspec.Struct, frozen=True):
    headers: _Headers = _Headers()
    operation: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    key: str | UnsetType = UNSET
    value: Raw | UnsetType = UNSET


_message = msgspec.json.Decoder(_Message)


def _state(text: bytes) -> Change:
    """The State Protocol, in the form with headers and in the older one without."""
    try:
        message = _message.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        message = _read_slowly(text)
    operation, known = message.headers.operation, _OPERATIONS
    if operation is UNSET:
        if message.headers.control is not UNSET:
            return _control(message.headers.control)
        operation, known = message.operation, _OLD_OPERATIONS
    if operation is UNSET:
        raise Bad("it has neither an operation nor a control")
    if operation not in known:
        raise Bad(f"{operation[:40]!r} is no operation")
    return _change(message, operation)


def _read_slowly(text: bytes) -> _Message:
    """Raises what the parser would have raised, where it was right."""
    harmless = without_half_pairs(text)
    message = _message.decode(harmless)
    if harmless == text:
        return message
    found = half_pairs.members(text)
    strings = {name: half_pairs.string(found[name]) for name in ("type", "key") if name in found}
    value = Raw(found["value"]) if "value" in found else UNSET
    return msgspec.structs.replace(message, value=value, **strings)


def _control(control: str) -> Change:
    if control == "reset":
        return RESET
    if control not in _CONTROLS:
        raise Bad(f"{control[:40]!r} is no control")
    return None


def _change(message: _Message, operation: str) -> Write:
    if message.type is UNSET or message.key is UNSET:
        raise Bad("it has no type" if message.type is UNSET else "it has no key")
    names = half_pairs.encoded(message.type), half_pairs.encoded(message.key)
    key = b'"type":%b,"key":%b' % names
    if operation in _REMOVES:
        return Write(key, None)
    if message.value is UNSET:
        raise Bad("it has no value")
    value = on_one_line(bytes(message.value))
    return Write(key, b'{%b,"value":%b%b' % (key, value, _INSERT))


@dataclass(frozen=True, slots=True)
class _LastByKey:
    pointer: Pointer
    tombstone: Tombstone | None

    def __call__(self, message: bytes) -> Change:
        found = self.pointer.find(message)
        if found is None:
            raise Bad(f"it has no {self.pointer.text}")
        key = _key(found)
        if self.tombstone is not None and self.tombstone.removes(message):
            return Write(key, None)
        return Write(key, on_one_line(message.strip(WHITE)))


def _key(found: bytes) -> bytes:
    """Strings are the same key however they were escaped."""
    if found[:1] == b'"':
        return half_pairs.encoded(half_pairs.string(found))
    if not _PLAIN_KEY.fullmatch(found):
        raise Bad("its key is neither a string nor a whole number nor a boolean")
    return found


def on_one_line(json: bytes) -> bytes:
    """Line breaks in JSON stand between its words only: a space does as well."""
    return json.translate(_WHITE) if b"\n" in json or b"\r" in json else json
