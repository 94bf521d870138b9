"""A JSON stream gives back the bytes its clients sent, and takes nothing that is not JSON."""

import json

import pytest
from support.client import JSON, NewStream, assert_problem

AS_SENT = [
    b"123456789012345678901234567890",
    b"-0",
    b"0.0",
    b"1.10",
    b"1E400",
    b"1e-400",
    b"0.1000000000000000055511151231257827021181583404541015625",
    b"true",
    b"null",
    b'""',
    b'{"b":1,"a":2}',
    b'{"a":1,"a":2}',
    b'{"a" :\t1 ,\r\n "b":[ 1 , 2 ] }',
    b'"\\u00e9"',
    '"é"'.encode(),
    '"\U0001f600"'.encode(),
    b'"\\ud83d\\ude00"',
    b'"\\u0000\\/\\b\\f\\n\\r\\t"',
    b'{"\\u0061":1}',
    b"{}",
]

NOT_JSON = [
    b"nope",
    b"{",
    b"}",
    b"[1,2",
    b"[1,,2]",
    b"[1,]",
    b'{"a":1,}',
    b"{'a':1}",
    b"{a:1}",
    b'"a\nb"',
    b'"\x00"',
    b'"\\x41"',
    b'"\\u12"',
    b"01",
    b"+1",
    b".5",
    b"1.",
    b"0x10",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b"[NaN]",
    b'{"a":Infinity}',
    b"True",
    b"1 2",
    b"{}{}",
    b"[1][2]",
    b"{}garbage",
    b"[1],",
    b"// comment\n1",
    b"   ",
    b"\x0b1",
    "\u00a01".encode(),
]

NOT_UTF8 = [
    b'"\xff"',
    b'"\xc3"',
    b'"\xc0\xaf"',
    b'"\xed\xa0\x80"',
    b'"\xf4\x90\x80\x80"',
    b'["fine","\xe9"]',
    b'{"\xff":1}',
]


@pytest.mark.parametrize("message", AS_SENT, ids=repr)
async def test_a_message_comes_back_as_the_client_wrote_it(
    new_stream: NewStream, message: bytes
) -> None:
    stream = new_stream()
    await stream.create()
    assert (await stream.append(message)).status == 204
    assert (await stream.read()).body == b"[" + message + b"]"


@pytest.mark.parametrize(
    "message",
    [b'"\\ud83d"', b'"\\ude00"', b'"\\ud83d, cut by a writer of tokens"', b'{"\\uD83D":1}'],
    ids=repr,
)
async def test_half_a_surrogate_pair_is_json_and_comes_back(
    new_stream: NewStream, message: bytes
) -> None:
    """JSON.stringify writes them so whenever a text was cut inside an emoji."""
    stream = new_stream()
    await stream.create()
    assert (await stream.append(message)).status == 204
    assert (await stream.append(b"[1," + message + b"]")).status == 204
    assert (await stream.read()).body == b"[" + message + b",1," + message + b"]"


async def test_the_messages_of_a_batch_come_back_as_the_client_wrote_them(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create()
    await stream.append(b"[" + b",".join(AS_SENT) + b"]")
    assert (await stream.read()).body == b"[" + b",".join(AS_SENT) + b"]"


async def test_an_initial_body_comes_back_as_the_client_wrote_it(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create(b"[" + b",".join(AS_SENT) + b"]")
    assert (await stream.read()).body == b"[" + b",".join(AS_SENT) + b"]"


@pytest.mark.parametrize(
    ("body", "stored"),
    [
        (b' \r\n\t{"a": 1}\n ', b'{"a": 1}'),
        (b" [ 1 ,\t2\n, [ 3 ] ] \n", b"1,2,[ 3 ]"),
    ],
)
async def test_white_space_around_a_message_is_no_part_of_it(
    new_stream: NewStream, body: bytes, stored: bytes
) -> None:
    stream = new_stream()
    await stream.create()
    appended = await stream.append(body)
    assert (await stream.read()).body == b"[" + stored + b"]"
    assert appended.position == len(stored) + 1


@pytest.mark.parametrize(
    ("body", "messages"),
    [
        (b"[[1,2],[3,4]]", [[1, 2], [3, 4]]),
        (b"[[[1,2,3]]]", [[[1, 2, 3]]]),
        (b"[[]]", [[]]),
        (b'[{"a":[1]},2]', [{"a": [1]}, 2]),
    ],
)
async def test_exactly_one_level_of_an_array_is_taken_apart(
    new_stream: NewStream, body: bytes, messages: list[object]
) -> None:
    stream = new_stream()
    await stream.create()
    await stream.append(body)
    assert (await stream.read()).json() == messages


@pytest.mark.parametrize("body", [*NOT_JSON, *NOT_UTF8], ids=repr)
async def test_what_is_not_json_in_utf8_is_refused_and_nothing_is_kept(
    new_stream: NewStream, body: bytes
) -> None:
    stream = new_stream()
    created = await stream.create()
    assert_problem(await stream.append(body), 400)
    assert (await stream.head()).next_offset == created.next_offset


@pytest.mark.parametrize("body", [b"nope", b'"\xff"', b"[1,"], ids=repr)
async def test_a_stream_is_not_created_with_what_is_not_json(
    new_stream: NewStream, body: bytes
) -> None:
    stream = new_stream()
    assert_problem(await stream.create(body), 400)
    assert (await stream.head()).status == 404


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
async def test_a_byte_order_mark_is_refused(new_stream: NewStream, encoding: str) -> None:
    stream = new_stream()
    await stream.create()
    assert_problem(await stream.append('{"a":1}'.encode(encoding)), 400)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b"[" * 100_000,
        b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
        b'[{"a":' * 50_000,
    ],
    ids=["arrays", "unended arrays", "objects", "unended mixture"],
)
async def test_nesting_without_end_is_refused_and_the_server_lives_on(
    new_stream: NewStream, body: bytes
) -> None:
    stream = new_stream()
    await stream.create()
    assert_problem(await stream.append(body), 400)
    assert (await stream.append(b"1")).status == 204
    assert (await stream.read()).json() == [1]


async def test_ordinary_nesting_is_accepted(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    deep = b"[" * 100 + b"]" * 100
    await stream.append(deep)
    assert (await stream.read()).body == deep


@pytest.mark.parametrize("body", [b"[]", b" [ ] \n"])
async def test_an_empty_array_is_no_append(new_stream: NewStream, body: bytes) -> None:
    stream = new_stream()
    await stream.create()
    assert_problem(await stream.append(body), 400)


async def test_an_empty_array_does_not_close_a_stream_either(new_stream: NewStream) -> None:
    stream = new_stream()
    await stream.create()
    assert_problem(await stream.close(b"[]"), 400)
    assert (await stream.head())["Stream-Closed"] is None


@pytest.mark.parametrize("body", [b"[]", b" [ ]\n"])
async def test_an_empty_array_creates_an_empty_stream(new_stream: NewStream, body: bytes) -> None:
    stream = new_stream()
    created = await stream.create(body)
    assert created.status == 201
    assert created.position == 0
    assert (await stream.read()).body == b"[]"


async def test_a_charset_parameter_makes_it_no_less_json(new_stream: NewStream) -> None:
    stream = new_stream(f"{JSON}; charset=utf-8")
    await stream.create()
    await stream.append(b"[1,2]")
    await stream.append(b"3", content_type=JSON)
    answer = await stream.read()
    assert answer.body == b"[1,2,3]"
    assert answer["Content-Type"] == f"{JSON}; charset=utf-8"


async def test_types_that_merely_sound_like_json_are_bytes(new_stream: NewStream) -> None:
    stream = new_stream("application/ndjson")
    await stream.create()
    await stream.append(b"[1]\n")
    await stream.append(b"not json")
    assert (await stream.read()).body == b"[1]\nnot json"


async def test_a_batch_of_many_messages_is_one_append_of_all_of_them(
    new_stream: NewStream,
) -> None:
    stream = new_stream()
    await stream.create()
    messages = [b'{"n":%d,"pad":"%s"}' % (n, b"x" * 40) for n in range(95_000)]
    body = b"[" + b",".join(messages) + b"]"
    assert len(body) > 5 * 1024 * 1024
    appended = await stream.append(body)
    assert appended.position == sum(len(message) + 1 for message in messages)
    bodies = [answer.body for answer in await stream.read_to_the_tail()]
    assert b"[" + b",".join(part[1:-1] for part in bodies) + b"]" == body


async def test_every_part_of_a_long_json_stream_is_a_document_of_its_own(
    new_small_chunk_stream: NewStream,
) -> None:
    stream = new_small_chunk_stream()
    await stream.create()
    values = [{"n": n, "pad": "é" * (n % 50)} for n in range(200)]
    await stream.append(json.dumps(values, ensure_ascii=False).encode())
    parts = [json.loads(answer.body) for answer in await stream.read_to_the_tail()]
    assert len(parts) > 5
    assert [value for part in parts for value in part] == values
