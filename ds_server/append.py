"""POST: append to a stream, close it, or both."""

import re
import time
from collections.abc import Callable
from http import HTTPStatus

from aiohttp import web
from multidict import CIMultiDictProxy

from cdn import policy
from ds_server import headers
from ds_server.acknowledgement import acknowledgement
from ds_server.body import read_body
from ds_server.create import parse_content_type
from ds_server.keys import STREAMS
from ds_server.metrics import TALLY
from ds_server.names import stream_name
from tiering.errors import Invalid
from tiering.hot.terms import Append, Appended
from tiering.messages import NOTHING, encode
from tiering.stream import Producer

_NUMBER = re.compile(r"[0-9]{1,16}")
_LARGEST = 2**53 - 1

Word = Callable[[str], str | None]


async def append(request: web.Request) -> web.StreamResponse:
    name = stream_name(request)
    body = await read_body(request)
    began = time.perf_counter()
    wanted = parse_append(request.headers, body)
    done = await request.app[STREAMS].append(name, wanted)
    size = 0 if done.duplicate else len(body)
    TALLY.appended(size, time.perf_counter() - began)
    return acknowledgement(request, *acknowledged(done, wanted))


def parse_append(given: CIMultiDictProxy[str], body: bytes) -> Append:
    closes = headers.is_true(given, headers.STREAM_CLOSED)
    return parse_words(lambda name: headers.single(given, name), body, closes=closes)


def parse_words(word: Word, body: bytes, *, closes: bool = False) -> Append:
    """`word` gives the value of a header."""
    seq = word(headers.STREAM_SEQ)
    if seq == "":
        raise Invalid("Stream-Seq is empty.")
    producer = _producer(word)
    if not body:
        if not closes:
            raise Invalid("The body is empty; only a closing request may have none.")
        return Append(NOTHING, "", closes, seq or "", producer)
    text = word(headers.CONTENT_TYPE)
    if text is None:
        raise Invalid("An append needs a Content-Type.")
    content_type = parse_content_type(text)
    payload = encode(content_type, body)
    if not payload.data:
        raise Invalid("An empty array appends nothing.")
    return Append(payload, content_type.media, closes, seq or "", producer)


def _producer(word: Word) -> Producer | None:
    producer_id = word(headers.PRODUCER_ID)
    epoch, seq = word(headers.PRODUCER_EPOCH), word(headers.PRODUCER_SEQ)
    if producer_id is None and epoch is None and seq is None:
        return None
    if producer_id is None or epoch is None or seq is None:
        raise Invalid("Producer-Id, Producer-Epoch and Producer-Seq go together.")
    if not producer_id:
        raise Invalid("Producer-Id is empty.")
    return Producer(
        producer_id, _number(headers.PRODUCER_EPOCH, epoch), _number(headers.PRODUCER_SEQ, seq)
    )


def _number(name: str, text: str) -> int:
    if not _NUMBER.fullmatch(text) or int(text) > _LARGEST:
        raise Invalid(f"{name} is a whole number from 0 to {_LARGEST}.")
    return int(text)


def acknowledged(done: Appended, wanted: Append) -> tuple[HTTPStatus, dict[str, str]]:
    answer = {headers.STREAM_NEXT_OFFSET: str(done.tail), "Cache-Control": policy.NO_STORE}
    if done.closed:
        answer[headers.STREAM_CLOSED] = headers.TRUE
    if wanted.producer is None:
        return HTTPStatus.NO_CONTENT, answer
    answer[headers.PRODUCER_EPOCH] = str(wanted.producer.epoch)
    answer[headers.PRODUCER_SEQ] = str(done.highest_seq)
    is_new_data = wanted.payload.data and not done.duplicate
    return HTTPStatus.OK if is_new_data else HTTPStatus.NO_CONTENT, answer
