"""What a task of Spark does at the server, without a Spark."""

import random
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest
from pyspark.sql.types import StructType
from support.forgetful_proxy import ForgetfulProxy
from support.server import RunningServer, wait_until
from support.wire import Wire

from spark.appending import Appender, Tally, Turn
from spark.piles import Piles
from spark.source import DurableStreams
from spark.surface import Surface
from tiering.errors import Conflict, Invalid, NotFound, Refused, StreamError, TooLarge, Unavailable

pytestmark = pytest.mark.timeout(120)

JSON, TEXT, BYTES = "application/json", "text/plain; charset=utf-8", "application/octet-stream"


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer() as running:
        yield running


@pytest.fixture
def wire(server: RunningServer) -> Iterator[Wire]:
    with Wire(server.url) as wire:
        yield wire


def write(
    url: str,
    rows: list[tuple[str, bytes]],
    content_type: str | None = None,
    producer: str = "test/0",
    number: int = 0,
    append_bytes: int = 1000,
    patience_secs: int = 60,
) -> Tally:
    """What a task does."""
    with Piles(in_memory_bytes=2000) as piles, Surface(url, patience_secs) as surface:
        appender = Appender(surface, Turn(producer, number), content_type, append_bytes)
        for name, payload in rows:
            appender.check(name, payload)
            piles.add(name, payload)
        for pile in piles:
            appender.prepare(pile)
        for pile in piles:
            appender.append(pile, piles.messages(pile))
        return appender.tally


def made(wire: Wire, name: str, content_type: str) -> str:
    assert wire.ask("PUT", name, content_type=content_type).status == 201
    return name


def numbers(stream: str, count: int) -> list[tuple[str, bytes]]:
    return [(stream, b"%d" % n) for n in range(count)]


def test_json_is_stored_in_the_bytes_it_came_in(server: RunningServer, wire: Wire) -> None:
    payloads = [
        b"1.0",
        b"12345678901234567890123456789",
        b"1E400",
        b"[]",
        b"[1, [2]]",
        b"[[3]]",
        b'{"a": 1,  "a": 2}',
        '"ü, ] }"'.encode(),
        rb'"\ud800 half a pair"',
        b"null",
        b'{"long": "%b"}' % (b"x" * 3000),
    ]
    name = made(wire, "json", JSON)
    tally = write(server.url, [(name, payload) for payload in payloads])
    assert wire.read_all_json(name) == b"[%b]" % b",".join(payloads)
    assert tally == Tally(messages=len(payloads), appends=2, repeated=0)


def test_a_row_is_an_append_where_it_is_not_json(server: RunningServer, wire: Wire) -> None:
    for name, content_type in (("text", TEXT), ("bytes", BYTES)):
        made(wire, name, content_type)
        rows = [(name, random.randbytes(length)) for length in (1, 5000, 7)]
        assert write(server.url, rows).appends == 3
        assert wire.read_all(name) == b"".join(payload for _, payload in rows)


def test_what_was_sent_before_is_not_written_again(server: RunningServer, wire: Wire) -> None:
    rows = [*numbers("again", 500), *numbers("again too", 3)]
    first = write(server.url, rows, JSON)
    second = write(server.url, rows, JSON)
    assert (first.repeated, second.repeated) == (0, second.appends)
    assert wire.read_all_json("again").count(b",") == 499
    assert wire.read_all_json("again%20too") == b"[0,1,2]"


def test_one_append_may_come_again_in_another_order(server: RunningServer, wire: Wire) -> None:
    """As Spark brings rows after a shuffle: all of them are there, or none."""
    rows = numbers("shuffled", 20)
    write(server.url, rows, JSON)
    assert write(server.url, rows[::-1], JSON).repeated == 1
    assert wire.read_all_json("shuffled").startswith(b"[0,1,2,")


@pytest.mark.parametrize("changed", ["fewer", "other order", "other pieces"])
def test_who_comes_again_with_something_else_writes_nothing(
    changed: str, server: RunningServer, wire: Wire
) -> None:
    stream = f"changed {changed}"
    rows = numbers(stream, 500)
    write(server.url, rows, JSON)
    before = wire.read_all_json(stream.replace(" ", "%20"))
    others = {"fewer": rows[:100], "other order": rows[::-1], "other pieces": rows}[changed]
    append_bytes = 900 if changed == "other pieces" else 1000
    with pytest.raises(Conflict, match="test/0 began epoch 0 with other rows"):
        write(server.url, others, JSON, append_bytes=append_bytes)
    assert wire.read_all_json(stream.replace(" ", "%20")) == before


def test_a_later_turn_shuts_out_earlier_ones(server: RunningServer, wire: Wire) -> None:
    write(server.url, numbers("turns", 2), JSON, number=7)
    write(server.url, numbers("turns", 3), JSON, number=8)
    with pytest.raises(Conflict, match="is at epoch 8 already, and this is 7"):
        write(server.url, numbers("turns", 2), JSON, number=7)
    assert wire.read_all_json("turns") == b"[0,1,0,1,2]"


def test_lost_answers_and_a_restart_of_the_server_are_outlasted() -> None:
    """Every third answer is lost after the server did what was asked."""
    with (
        RunningServer() as server,
        ForgetfulProxy(server.url, lambda appends: appends % 3 == 0) as proxy,
        ThreadPoolExecutor() as threads,
    ):
        sent = {letter: [b"%b%d\n" % (letter, n) for n in range(300)] for letter in (b"a", b"b")}
        tasks = [
            threads.submit(write, url, [("lossy", one) for one in sent[letter]], TEXT, producer)
            for url, letter, producer in ((proxy.url, b"a", "test/0"), (server.url, b"b", "test/1"))
        ]
        wait_until(lambda: proxy.appends > 50, what="some appends")
        server.kill()
        server.start()
        assert [task.result().messages for task in tasks] == [300, 300]
        with Wire(server.url) as wire:
            found = wire.read_all("lossy").splitlines(keepends=True)
        for letter, messages in sent.items():
            assert [one for one in found if one.startswith(letter)] == messages


def test_a_server_without_room_is_waited_for() -> None:
    with (
        RunningServer(env={"DS_LIMITS__MAX_HOT_BYTES": "6000000"}) as server,
        Wire(server.url) as wire,
        server.redis() as redis,
        ThreadPoolExecutor() as threads,
    ):
        made(wire, "full", TEXT)
        redis.set("ballast", bytes(8_000_000))

        def is_full() -> bool:
            return wire.ask("POST", "full", b".", content_type=TEXT).status == 503

        wait_until(is_full, what="no room")
        with pytest.raises(Unavailable, match="stayed away for 0 s"):
            write(server.url, numbers("full", 3), patience_secs=0)
        writing = threads.submit(write, server.url, numbers("full", 3))
        assert is_full()
        redis.delete("ballast")
        assert writing.result().appends == 3
        assert wire.read_all("full").lstrip(b".") == b"012"


def test_whoever_was_cut_off_goes_on_where_it_was(server: RunningServer, wire: Wire) -> None:
    rows = numbers("cut off", 40)
    with ForgetfulProxy(server.url, lambda appends: appends >= 25) as proxy:
        with pytest.raises(Unavailable, match="stayed away for 0 s"):
            write(proxy.url, rows, TEXT, patience_secs=0)
        proxy.loses = lambda _: False
        assert write(proxy.url, rows, TEXT).repeated == 26
    assert wire.read_all("cut%20off") == b"".join(payload for _, payload in rows)


def test_refusals_say_in_one_line_what_is_wrong(server: RunningServer, wire: Wire) -> None:
    made(wire, "closed", JSON)
    wire.ask("POST", "closed", stream_closed="true")
    made(wire, "plain", TEXT)
    made(wire, "array", JSON)
    made(wire, "theirs", JSON)
    wire.ask(
        "POST",
        "theirs",
        b"1",
        content_type=JSON,
        producer_id="test/0",
        producer_epoch="0",
        producer_seq="0",
    )
    one = b"1"
    cases: list[tuple[type[StreamError], str, str, bytes, str | None]] = [
        (NotFound, "missing: there is no such stream", "missing", one, None),
        (Invalid, "__ds/no-such-bucket/s cannot be made", "__ds/no-such-bucket/s", one, JSON),
        (Invalid, "no name of a stream", "__ds/nothing", one, JSON),
        (Invalid, "A stream's id has no '/'", "__ds/some/s/snapshot/0_0", one, JSON),
        (Conflict, "closed is closed", "closed", one, None),
        (Conflict, "plain", "plain", one, JSON),
        (Conflict, "somebody else writes as test/0", "theirs", one, None),
        (Invalid, "array: a payload is not one JSON value: '1,2'", "array", b"1,2", None),
        (Invalid, "array: a payload is not one JSON value", "array", b"\xff", None),
        (Invalid, "array: a payload is empty", "array", b"", None),
        (Invalid, "plain: a payload is empty", "plain", b"", None),
        (TooLarge, "plain", "plain", b"x" * (16 * 2**20 + 1), None),
    ]
    for kind, says, name, payload, content_type in cases:
        with pytest.raises(kind) as caught:
            write(server.url, [(name, payload)], content_type)
        assert says in str(caught.value)
        assert "\n" not in str(caught.value)
    assert wire.read_all("plain") == b""
    with pytest.raises(Unavailable, match=r"stayed away for 0 s: .*refused"):
        write("http://127.0.0.1:1", numbers("s", 1), patience_secs=0)


def test_all_streams_are_looked_at_before_the_first_is_written_to(
    server: RunningServer, wire: Wire
) -> None:
    made(wire, "open", JSON)
    made(wire, "shut", JSON)
    wire.ask("POST", "shut", stream_closed="true")
    with pytest.raises(Conflict, match="shut is closed"):
        write(server.url, [*numbers("open", 3), *numbers("shut", 3)])
    assert wire.read_all_json("open") == b"[]"


def test_a_bad_row_keeps_a_task_from_writing_anything(server: RunningServer, wire: Wire) -> None:
    with pytest.raises(Invalid, match="not one JSON value"):
        write(server.url, [*numbers("early", 1000), ("early", b"{")], JSON)
    assert wire.ask("HEAD", "early").status == 404


def test_piles_hold_little_in_memory_and_keep_the_order() -> None:
    random_rows = random.Random(4)
    rows = [
        (f"s{random_rows.randrange(40)}", random_rows.randbytes(random_rows.randrange(300)))
        for _ in range(3000)
    ]
    with Piles(in_memory_bytes=5000) as piles:
        held = []
        for name, payload in rows:
            piles.add(name, payload)
            held.append(sum(len(one) for pile in piles for one in pile._recent))
        assert max(held) < 5000 + 300
        assert any(after < before for before, after in pairwise(held))
        for pile in piles:
            assert list(piles.messages(pile)) == [row for name, row in rows if name == pile.name]


SERVER = {"server": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("options", "columns", "says"),
    [
        ({}, "payload STRING", "option server is missing"),
        (SERVER | {"colour": "red"}, "payload STRING", "no option 'colour'"),
        (SERVER | {"path": "/x"}, "payload STRING", "no option 'path'"),
        (SERVER, "payload STRING", "either the option stream"),
        (SERVER | {"stream": "s"}, "stream STRING, payload STRING", "either the option stream"),
        (SERVER | {"stream": "s"}, "payload BINARY, n INT", "'n' cannot be written: write select"),
        (SERVER | {"stream": "s"}, "payload INT", "payload, binary or string"),
        (SERVER, "stream INT, payload BINARY", "stream must be a string"),
        (SERVER | {"stream": "s", "epoch": "1"}, "payload BINARY", "epoch counts the runs"),
        (SERVER | {"stream": "s", "appendBytes": "1e9"}, "payload BINARY", "no whole number"),
        (SERVER | {"stream": "s", "producer": "a b"}, "payload BINARY", "cannot be used"),
    ],
)
def test_what_cannot_be_written_is_refused_when_it_is_asked_for(
    options: dict[str, str], columns: str, says: str
) -> None:
    with pytest.raises(Refused, match=says):
        DurableStreams(options).writer(schema_of(columns), False)


def test_overwriting_is_refused() -> None:
    source = DurableStreams(SERVER | {"stream": "s"})
    with pytest.raises(Refused, match="never overwritten"):
        source.writer(schema_of("payload STRING"), True)
    with pytest.raises(Refused, match="outputMode complete"):
        source.streamWriter(schema_of("payload STRING"), True)


def schema_of(columns: str) -> StructType:
    kinds = {"STRING": "string", "BINARY": "binary", "INT": "integer"}
    schema = StructType()
    for column in columns.split(", "):
        name, kind = column.split()
        schema = schema.add(name, kinds[kind])
    return schema
