"""What a stream has that object storage has not yet, asked of the server."""

import urllib.error
import urllib.request
from collections.abc import Iterator
from email.message import Message

import msgspec
import numpy as np

from spark.messages import Messages
from spark.planning import Source, Tail
from spark.surface import path_of
from tiering.errors import Gone, StreamError, Unavailable
from tiering.offset import Offset
from tiering.stream import ContentType

_SECS = 60
_values = msgspec.json.Decoder(list[msgspec.Raw])


def read(server: str, tail: Tail) -> Iterator[tuple[Source, Messages]]:
    """Goes on exactly where the sealed data end, up to where the stream ends when it is asked.

    A server tells neither times nor where the appends of a byte stream end, so what it answers
    at once is one message there.
    """
    name, at = tail.source.name, Offset(tail.source.log, tail.start)
    while tail.end is None or at.position < tail.end:
        answer = _ask(server, name, at)
        if answer is None:
            return
        headers, body = answer
        following = Offset.parse(headers["Stream-Next-Offset"])
        if following is None:
            raise Unavailable(f"{server} does not say where {name} goes on.")
        content_type = headers["Content-Type"]
        source = Source(name, following.log, content_type)
        messages = _messages(at.position, body, ContentType(content_type))
        yield source, _up_to(messages, tail.end)
        if headers["Stream-Up-To-Date"] or following.position == at.position:
            return
        at = following


def _ask(server: str, name: str, at: Offset) -> tuple[Message, bytes] | None:
    """None when there is no such stream any more."""
    url = f"{server}{path_of(name)}?offset={at}"
    try:
        with urllib.request.urlopen(url, timeout=_SECS) as answer:
            return answer.headers, answer.read()
    except urllib.error.HTTPError as error:
        with error:
            if error.code == 404:
                return None
            raise _refusal(error.code, name, at) from error
    except OSError as error:
        raise Unavailable(f"{server} does not answer: {error}.") from error


def _refusal(status: int, name: str, at: Offset) -> StreamError:
    if status == 410:
        return Gone(f"{name} has changed since the query was planned: run it again.", at)
    return Unavailable(f"The server answered {status} to {name} at {at}.")


def _messages(start: int, body: bytes, content_type: ContentType) -> Messages:
    if content_type.is_json:
        lengths = [len(bytes(value)) + 1 for value in _values.decode(body)]
    else:
        lengths = [len(body)] if body else []
    bounds = np.concatenate(([start], start + np.cumsum(lengths, dtype=np.int64)))
    stored = np.frombuffer(body, np.uint8)[1 if content_type.is_json else 0 :]
    return Messages(bounds, stored, None, content_type.is_json)


def _up_to(messages: Messages, end: int | None) -> Messages:
    if end is None or messages.bounds[-1] <= end:
        return messages
    last = int(np.searchsorted(messages.bounds, end, "left"))
    bounds = np.minimum(messages.bounds[: last + 1], end)
    if messages.is_json and bounds[-1] != messages.bounds[last]:
        bounds = bounds[:-1]
    return Messages(bounds, messages.data, None, messages.is_json)
