"""From request bodies to stored bytes and back.

A JSON stream is stored as `m1,m2,m3,`: each message in the client's own bytes plus one
separator, so that every range between two message boundaries is one array away from a body.
"""

import re
import struct
from collections.abc import Sequence

import msgspec

from tiering.errors import Invalid, TooLarge
from tiering.stream import ContentType

# Each costs Redis and the worker some time and memory of its own, however short it is.
MOST_MESSAGES = 100_000

_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_batch = msgspec.json.Decoder(list[msgspec.Raw])
_single = msgspec.json.Decoder(msgspec.Raw)


class Payload(msgspec.Struct, frozen=True):
    """Bytes to store; `lengths` packs each message's stored length when there are several."""

    data: bytes
    lengths: bytes = b""


NOTHING = Payload(b"")


def encode(content_type: ContentType, body: bytes) -> Payload:
    if not content_type.is_json or not body:
        return Payload(body)
    return _join(_split(body))


def _split(body: bytes) -> Sequence[bytes | msgspec.Raw]:
    """The messages of a JSON body: an array counts as its elements, one level deep."""
    try:
        body.decode()
        messages = _decode(body)
    except UnicodeDecodeError as error:
        raise Invalid("The body is not valid UTF-8.") from error
    except RecursionError as error:
        raise Invalid("The JSON in the body is nested too deeply.") from error
    except msgspec.DecodeError as error:
        harmless = without_half_pairs(body)
        if harmless != body:
            return _cut_alike(body, harmless, _split(harmless))
        raise Invalid(f"The body is not valid JSON: {error}.") from error
    if len(messages) > MOST_MESSAGES:
        raise TooLarge(f"One append takes at most {MOST_MESSAGES} messages.")
    return messages


def _decode(body: bytes) -> Sequence[msgspec.Raw]:
    if body.lstrip(b" \t\r\n").startswith(b"["):
        return _batch.decode(body)
    return [_single.decode(body)]


def without_half_pairs(body: bytes) -> bytes:
    """Escapes of half a surrogate pair are JSON, but the decoder refuses them: of the same
    length, a letter instead."""
    return _ESCAPE.sub(lambda match: rb"\u0041" if match["half"] else match[0], body)


def _cut_alike(
    body: bytes, harmless: bytes, messages: Sequence[bytes | msgspec.Raw]
) -> Sequence[bytes]:
    """The stretches of `body` where the messages stand in its harmless double."""
    found, end = [], 0
    for message in map(bytes, messages):
        start = harmless.index(message, end)
        end = start + len(message)
        found.append(body[start:end])
    return found


def _join(messages: Sequence[bytes | msgspec.Raw]) -> Payload:
    if not messages:
        return NOTHING
    if len(messages) == 1:
        return Payload(b"%b," % messages[0])
    stored = [b"%b," % message for message in messages]
    return Payload(b"".join(stored), pack_lengths([len(message) for message in stored]))


def pack_lengths(lengths: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(lengths)}I", *lengths)


def unpack_lengths(packed: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(packed) // 4}I", packed)


def body_length(content_type: ContentType, stored: int) -> int:
    """How long the response body for so many stored bytes is."""
    if not content_type.is_json:
        return stored
    return stored + 1 if stored else 2


def body(content_type: ContentType, stored: bytes) -> bytes:
    if not content_type.is_json:
        return stored
    return b"[%b]" % stored[:-1]
