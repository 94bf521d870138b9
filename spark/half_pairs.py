"""JSON with escaped halves of surrogate pairs. The server takes it, as every JavaScript does, and
msgspec refuses it: such a message is read with Python's own parser, which is slow and does."""

import json
import re

import msgspec

_SPACE = re.compile(r"[ \t\r\n]*")
_values = json.JSONDecoder(parse_int=str, parse_float=str)


def string(text: bytes) -> str:
    found = json.loads(text)
    if not isinstance(found, str):
        raise msgspec.ValidationError(f"Expected `str`, got `{type(found).__name__}`")
    return found


def encoded(text: str) -> bytes:
    """In one way, whatever is in it."""
    try:
        return msgspec.json.encode(text)
    except UnicodeEncodeError:
        return json.dumps(text).encode()


def members(message: bytes) -> dict[str, bytes]:
    """Of an object that is known to be JSON: each value as it was written."""
    text, found = message.decode(), {}
    at = _skip(text, _skip(text, 0) + 1)
    while text[at] != "}":
        name, at = _values.raw_decode(text, at)
        at = _skip(text, _skip(text, at) + 1)
        found[name], at = _value(text, at)
    return found


def elements(message: bytes) -> list[bytes]:
    """The same of an array."""
    text, found = message.decode(), []
    at = _skip(text, _skip(text, 0) + 1)
    while text[at] != "]":
        element, at = _value(text, at)
        found.append(element)
    return found


def _value(text: str, at: int) -> tuple[bytes, int]:
    """And where the next one begins, or the end stands."""
    _, end = _values.raw_decode(text, at)
    following = _skip(text, end)
    if text[following] == ",":
        following = _skip(text, following + 1)
    return text[at:end].encode(), following


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
