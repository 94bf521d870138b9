"""Bootstrap (extensions §3.2, §3.4) as parsers read it that know nothing of our server: Python's
`email`, and that of the npm package @fastify/busboy."""

import base64
import json
import random

import aiohttp
import pytest
from clients.node import play_together
from support.client import BYTES, JSON, TEXT, Stream
from support.extensions import Part, bootstrap, new_bucket, publish
from support.server import RunningServer

PIECES = (1, 7, 61, 65_537)
LINES = [
    b"\r\n",
    b"\n",
    b"\r",
    b"-",
    b"--",
    b"\r\n--",
    b"--\r\n",
    b"\r\n--\r\n",
    b"\r\n\r\n",
    b"\n\n--\n",
    b"a\r\n",
    b"\r\na",
    b"\r\r\n\n",
    b"Content-Type: text/html\r\n\r\nnot a header",
    b"\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\n--x\r\n\r\n--x--\r\n",
    b" \t ",
    b"=3D=0A",
    b"\x0b\x0c\x1c\x1d\x1e\x85\xa0",
    b"From here\n>From there\n",
]


async def seen_by_javascript(stream: Stream) -> list[list[Part]]:
    given = [{"url": f"{stream.url}/bootstrap", "size": size} for size in PIECES]
    verdicts = await play_together("multipart", given)
    return [[(kind, base64.b64decode(body)) for kind, body in parts] for parts in verdicts]


async def a_boundary(stream: Stream) -> bytes:
    """Of an answer that was given before."""
    content_type = (await bootstrap(stream)).answer.headers["Content-Type"]
    return content_type.partition("boundary=")[2].encode()


async def assert_both_read(stream: Stream, first: Part, messages: list[bytes]) -> None:
    expected = [first, *((stream.content_type, message) for message in messages)]
    found = await bootstrap(stream)
    assert [found.snapshot, *found.updates] == expected
    for parts in await seen_by_javascript(stream):
        assert parts == expected


@pytest.mark.parametrize("kind", [TEXT, BYTES])
async def test_line_breaks_dashes_and_boundaries_of_other_answers(
    server: RunningServer, http: aiohttp.ClientSession, kind: str
) -> None:
    """§3.2: a part is exactly one message; §3.4: the boundaries between them are those of MIME."""
    stream = (await new_bucket(http, server.url)).stream(content_type=kind)
    await stream.create()
    boundary = await a_boundary(stream)
    messages = [*LINES, b"\r\n--" + boundary, b"\r\n--" + boundary + b"--\r\n", boundary]
    messages += [b"--" + boundary + b"\r\nContent-Type: a/b\r\n\r\nx\r\n"]
    for message in messages:
        assert (await stream.append(message)).status == 204
    await assert_both_read(stream, (BYTES, b""), messages)
    whole = b"\r\n--" + boundary + b"--\r\n" + b"".join(messages)
    place = (await stream.head()).next_offset
    assert (await publish(stream, place, whole, content_type="application/x-it")).status == 204
    await stream.append(b"\r\n")
    await assert_both_read(stream, ("application/x-it", whole), [b"\r\n"])


async def test_json_in_the_bytes_that_were_written(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§3.2: no message is reframed, with whatever space it was written."""
    stream = (await new_bucket(http, server.url)).stream(content_type=JSON)
    await stream.create()
    messages = [json.dumps(line.decode("latin-1")).encode() for line in LINES]
    messages += [b'{ "a" :\r\n\r\n \n\r 1 }', b"[1,\n2]", b"null", b'"\xc3\xa9"']
    for message in messages:
        assert (await stream.append(b"[" + message + b"]")).status == 204
    await assert_both_read(stream, (BYTES, b""), messages)


async def test_random_bytes_of_every_length(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    """§3.2: binary payloads are not reinterpreted."""
    stream = (await new_bucket(http, server.url)).stream(content_type=BYTES)
    await stream.create()
    chance = random.Random(9)
    messages = [bytes(chance.choices(b"\r\n-\x00\xff", k=size)) for size in range(1, 120)]
    messages += [chance.randbytes(size) for size in (4095, 4096, 4097, 70_000)]
    for message in messages:
        assert (await stream.append(message)).status == 204
    await assert_both_read(stream, (BYTES, b""), messages)
