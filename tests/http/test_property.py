"""Random histories of a few streams, played to the real server and to a plain list.

`DS_PROPERTY_EXAMPLES=1000 pytest tests/http/test_property.py` looks further, and elsewhere
each time; without it the same histories are played in every run.
"""

import itertools
import json
import os
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from support.model import JSON, ModelStream, Slice, parse_token, token
from support.server import RunningServer
from support.wire import Answer, Wire

BYTES = "application/octet-stream"
TEXT = "text/plain"
ZERO = token(0, 0)
ETAG = re.compile(r'"([0-9]+):([0-9]+):([0-9]+)((?::t)?(?::c)?)"')
DEFAULT_CHUNK_BYTES = 4 * 1024 * 1024
SMALLEST_FILLING = len('"",')
LARGEST_FILLING = 64 * 1024

T = TypeVar("T")
Rule = TypeVar("Rule", bound=Callable[..., None])

EXAMPLES = os.environ.get("DS_PROPERTY_EXAMPLES")
SETTINGS = settings(
    max_examples=int(EXAMPLES or 60),
    stateful_step_count=40,
    derandomize=EXAMPLES is None,
    database=None,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@dataclass(frozen=True, slots=True)
class Part:
    """One message to be, or a run of bytes: a shape, and how far it is stretched."""

    shape: int
    size: int

    def as_json(self, serial: int) -> bytes:
        pad = "x" * self.size
        shapes = [
            f'{{"n":{serial},"pad":"{pad}"}}',
            f'{{ "n" : {serial} ,\n\t"n" : 1.10, "pad":"\\u00e9é\\ud83d\\ude00{pad}" }}',
            f'[{serial}, ["{pad}"]]',
            f'"{serial} \\/ \\" {pad}"',
            f"{serial}{'0' * self.size}.10",
            "-0",
            "1E400",
            "null",
            "[]",
            "{ }",
        ]
        return shapes[self.shape % len(shapes)].encode()

    def as_bytes(self, serial: int) -> bytes:
        return b"%d\r\n\x00\xff" % serial + bytes([self.shape]) * self.size


@dataclass(frozen=True, slots=True)
class Batch:
    """Drawn without knowing for which kind of stream it will be."""

    parts: list[Part]
    space: bytes
    bare: bool

    def messages(self, serials: Iterator[int]) -> list[bytes]:
        return [part.as_json(next(serials)) for part in self.parts]

    def json_body(self, messages: list[bytes]) -> bytes:
        space = self.space
        if self.bare and len(messages) == 1 and not messages[0].startswith(b"["):
            return space + messages[0] + space
        inside = b",".join(space + message + space for message in messages)
        return space + b"[" + inside + b"]" + space

    def bytes_body(self, serials: Iterator[int]) -> bytes:
        return b"".join(part.as_bytes(next(serials)) for part in self.parts)


PARTS = st.builds(
    Part,
    shape=st.integers(0, 9),
    size=st.one_of(
        st.integers(0, 60),
        st.integers(0, 900),
        st.sampled_from([1000, 1023, 1024, 1025, 2048, 5000]),
    ),
)
BATCHES = st.builds(
    Batch,
    parts=st.lists(PARTS, min_size=1, max_size=12),
    space=st.sampled_from([b"", b"", b" ", b"\r\n\t "]),
    bare=st.booleans(),
)
PICKS = st.integers(0, 2**16)
PRODUCERS = st.sampled_from(["a", "b"])


def some(*, live: bool = False, is_open: bool = False) -> Callable[[Rule], Rule]:
    """The rule needs a stream of this kind to be there, and picks one."""
    return precondition(
        lambda machine: (not live or machine.live()) and (not is_open or machine.open())
    )


class ServerAgainstList(RuleBasedStateMachine):
    def __init__(self, wire: Wire, grid: int) -> None:
        super().__init__()
        self.wire = wire
        self.grid = grid
        self.prefix = uuid.uuid4().hex
        self.serials = itertools.count(1)
        self.streams: dict[str, ModelStream] = {}
        self.graveyard: dict[str, list[str]] = {}
        """Offsets of deleted streams, by the name they had."""
        self.newest_log = 0

    def live(self) -> list[tuple[str, ModelStream]]:
        return list(self.streams.items())

    def open(self) -> list[tuple[str, ModelStream]]:
        return [(name, stream) for name, stream in self.streams.items() if not stream.closed]

    # Creation and deletion

    @initialize(batch=BATCHES, content_type=st.sampled_from([JSON, BYTES]))
    def one_stream_to_begin_with(self, batch: Batch, content_type: str) -> None:
        self._create(self._new_name(), content_type, batch, closed=False)

    @rule(
        content_type=st.sampled_from([JSON, JSON, BYTES, TEXT]),
        batch=st.none() | BATCHES,
        closed=st.sampled_from([False, False, False, True]),
    )
    def create(self, content_type: str, batch: Batch | None, closed: bool) -> None:
        self._create(self._new_name(), content_type, batch, closed)

    @some(live=True)
    @rule(pick=PICKS, batch=st.none() | BATCHES)
    def create_the_same_again(self, pick: int, batch: Batch | None) -> None:
        name, stream = chosen(self.live(), pick)
        body, _ = self._render(stream.content_type, batch)
        answer = self._put(name, stream.content_type, body, stream.closed)
        assert answer.status == 200
        assert answer["Stream-Next-Offset"] == stream.tail_token
        assert answer["Stream-Closed"] == ("true" if stream.closed else None)

    @some(live=True)
    @rule(pick=PICKS, other_type=st.booleans())
    def create_something_else_in_its_place(self, pick: int, other_type: bool) -> None:
        name, stream = chosen(self.live(), pick)
        content_type = another_type(stream) if other_type else stream.content_type
        closed = stream.closed if other_type else not stream.closed
        self._assert_problem(self._put(name, content_type, None, closed), 409)

    @some(live=True)
    @rule(
        pick=PICKS,
        batch=st.none() | BATCHES,
        content_type=st.sampled_from([JSON, BYTES]),
        old=PICKS,
    )
    def delete_and_create_anew(
        self, pick: int, batch: Batch | None, content_type: str, old: int
    ) -> None:
        name, stream = chosen(self.live(), pick)
        assert self.wire.ask("DELETE", name).status == 204
        del self.streams[name]
        offsets = self.graveyard.setdefault(name, [])
        offsets += [token(stream.log, position) for position in stream.handed_out]
        self._assert_not_found(name, chosen(offsets, old))
        self._create(name, content_type, batch, closed=False)
        self._assert_problem(self.wire.ask("GET", name, offset=chosen(offsets, old)), 410)

    # Appends

    @some(live=True)
    @rule(pick=PICKS, batch=BATCHES)
    def append(self, pick: int, batch: Batch) -> None:
        name, stream = chosen(self.live(), pick)
        self._append(name, stream, batch)

    @some(is_open=True)
    @rule(pick=PICKS, batches=st.lists(BATCHES, min_size=2, max_size=4))
    def append_several_times(self, pick: int, batches: list[Batch]) -> None:
        name, stream = chosen(self.open(), pick)
        for batch in batches:
            self._append(name, stream, batch)

    @some(is_open=True)
    @rule(pick=PICKS, beside=st.sampled_from([-1, 0, 0, 1]))
    def append_up_to_a_grid_line(self, pick: int, beside: int) -> None:
        name, stream = chosen(self.open(), pick)
        if self.grid > LARGEST_FILLING:
            return
        size = self.grid - stream.tail % self.grid + beside
        if size < SMALLEST_FILLING:
            size += self.grid
        filling = b'"' + b"x" * (size - 3) + b'"' if stream.is_json else b"x" * size
        answer = self.wire.ask("POST", name, filling, content_type=stream.content_type)
        assert answer.status == 204
        stream.add([filling])
        self._take_tail(answer, stream)

    @some(is_open=True)
    @rule(pick=PICKS, batch=BATCHES, seq=st.text(alphabet="019Aab", min_size=1, max_size=3))
    def append_with_stream_seq(self, pick: int, batch: Batch, seq: str) -> None:
        name, stream = chosen(self.open(), pick)
        if stream.last_seq is None or seq.encode() > stream.last_seq:
            self._append(name, stream, batch, stream_seq=seq)
            stream.last_seq = seq.encode()
            return
        answer, _ = self._post(name, stream, batch, stream_seq=seq)
        self._assert_problem(answer, 409)
        assert answer["Stream-Closed"] is None
        self._assert_unchanged(name, stream)

    @some(live=True)
    @rule(pick=PICKS, batch=BATCHES)
    def append_as_another_content_type(self, pick: int, batch: Batch) -> None:
        name, stream = chosen(self.live(), pick)
        body, _ = self._render(another_type(stream), batch)
        answer = self.wire.ask("POST", name, body, content_type=another_type(stream))
        self._assert_problem(answer, 409)
        assert answer["Stream-Closed"] == ("true" if stream.closed else None)

    @some(is_open=True)
    @rule(pick=PICKS, batch=BATCHES, damage=st.sampled_from([b"]", b",", b"nope", b"\xff"]))
    def append_broken_json(self, pick: int, batch: Batch, damage: bytes) -> None:
        name, stream = chosen(self.open(), pick)
        if stream.is_json:
            body, _ = self._render(JSON, batch)
            answer = self.wire.ask("POST", name, body + damage, content_type=JSON)
            self._assert_problem(answer, 400)
            self._assert_unchanged(name, stream)

    # Closing

    @some(live=True)
    @rule(pick=PICKS)
    def close(self, pick: int) -> None:
        name, stream = chosen(self.live(), pick)
        answer = self.wire.ask("POST", name, stream_closed="true")
        assert answer.status == 204
        assert answer["Stream-Closed"] == "true"
        assert answer["Stream-Next-Offset"] == stream.tail_token
        stream.closed = True

    @some(live=True)
    @rule(pick=PICKS, batch=BATCHES)
    def close_with_a_last_append(self, pick: int, batch: Batch) -> None:
        name, stream = chosen(self.live(), pick)
        self._append(name, stream, batch, stream_closed="true")

    # Producers

    @some(live=True)
    @rule(
        pick=PICKS,
        producer=PRODUCERS,
        batch=BATCHES,
        closing=st.sampled_from([False, False, False, False, True]),
    )
    def producer_goes_on(self, pick: int, producer: str, batch: Batch, closing: bool) -> None:
        name, stream = chosen(self.live(), pick)
        epoch, last = stream.producers.get(producer, (0, -1))
        self._produce(name, stream, batch, (producer, epoch, last + 1), closing)

    @some(live=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, ahead=st.integers(1, 3))
    def producer_starts_a_new_epoch(
        self, pick: int, producer: str, batch: Batch, ahead: int
    ) -> None:
        name, stream = chosen(self.live(), pick)
        epoch, _ = stream.producers.get(producer, (0, -1))
        self._produce(name, stream, batch, (producer, epoch + ahead, 0), closing=False)

    @some(is_open=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, earlier=PICKS)
    def producer_says_it_again(self, pick: int, producer: str, batch: Batch, earlier: int) -> None:
        name, stream = chosen(self.open(), pick)
        if producer not in stream.producers:
            self._produce(name, stream, batch, (producer, 0, 0), closing=False)
        epoch, last = stream.producers[producer]
        said = (producer, epoch, earlier % (last + 1))
        answer, _ = self._post(name, stream, batch, **producer_headers(said))
        assert answer.status == 204
        assert answer["Producer-Epoch"] == str(epoch)
        assert answer["Producer-Seq"] == str(last)
        assert answer["Stream-Next-Offset"] is not None
        self._assert_unchanged(name, stream)

    @some(is_open=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, other=BATCHES)
    def producer_closes_and_says_it_again(
        self, pick: int, producer: str, batch: Batch, other: Batch
    ) -> None:
        name, stream = chosen(self.open(), pick)
        epoch, last = stream.producers.get(producer, (0, -1))
        said = (producer, epoch, last + 1)
        self._produce(name, stream, batch, said, closing=True)
        answer, _ = self._post(name, stream, other, stream_closed="true", **producer_headers(said))
        assert answer.status == 204
        assert answer["Stream-Closed"] == "true"
        assert answer["Stream-Next-Offset"] == stream.tail_token
        self._assert_unchanged(name, stream)

    @some(is_open=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, gap=st.integers(1, 5))
    def producer_leaves_a_gap(self, pick: int, producer: str, batch: Batch, gap: int) -> None:
        name, stream = chosen(self.open(), pick)
        epoch, last = stream.producers.get(producer, (0, -1))
        said = (producer, epoch, last + 1 + gap)
        answer, _ = self._post(name, stream, batch, **producer_headers(said))
        self._assert_problem(answer, 409)
        assert answer["Producer-Expected-Seq"] == str(last + 1)
        assert answer["Producer-Received-Seq"] == str(last + 1 + gap)
        assert answer["Stream-Closed"] is None
        self._assert_unchanged(name, stream)

    @some(is_open=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, seq=st.integers(0, 3))
    def producer_of_a_past_epoch(self, pick: int, producer: str, batch: Batch, seq: int) -> None:
        name, stream = chosen(self.open(), pick)
        epoch, _ = stream.producers.get(producer, (0, -1))
        if epoch == 0:
            epoch = 1
            self._produce(name, stream, batch, (producer, epoch, 0), closing=False)
        stale = (producer, epoch - 1, seq)
        answer, _ = self._post(name, stream, batch, **producer_headers(stale))
        self._assert_problem(answer, 403)
        assert answer["Producer-Epoch"] == str(epoch)
        self._assert_unchanged(name, stream)

    @some(is_open=True)
    @rule(pick=PICKS, producer=PRODUCERS, batch=BATCHES, seq=st.integers(1, 3))
    def producer_starts_an_epoch_in_the_middle(
        self, pick: int, producer: str, batch: Batch, seq: int
    ) -> None:
        name, stream = chosen(self.open(), pick)
        if producer in stream.producers:
            epoch, _ = stream.producers[producer]
            said = (producer, epoch + 1, seq)
            answer, _ = self._post(name, stream, batch, **producer_headers(said))
            self._assert_problem(answer, 400)
            self._assert_unchanged(name, stream)

    # Reads

    @some(live=True)
    @rule(pick=PICKS, offset=st.sampled_from([None, "-1", ZERO]))
    def read_from_the_beginning(self, pick: int, offset: str | None) -> None:
        name, stream = chosen(self.live(), pick)
        self._read(name, stream, offset, 0)

    @some(live=True)
    @rule(pick=PICKS)
    def read_from_now(self, pick: int) -> None:
        name, stream = chosen(self.live(), pick)
        answer = self.wire.ask("GET", name, offset="now")
        assert answer.status == 200
        assert answer.body == (b"[]" if stream.is_json else b"")
        assert answer["Stream-Next-Offset"] == stream.tail_token
        assert answer["Stream-Up-To-Date"] == "true"
        assert answer["Stream-Closed"] == ("true" if stream.closed else None)
        assert answer["Cache-Control"] == "no-store"
        assert answer["ETag"] is None

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def read_from_an_offset_handed_out_before(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        position = chosen(stream.handed_out, where)
        self._read(name, stream, token(stream.log, position), position)

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def resume_from_an_offset_and_follow_to_the_tail(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        start = position = chosen(stream.handed_out, where)
        bodies = []
        up_to_date = False
        while not up_to_date:
            expected = self._read(name, stream, token(stream.log, position), position)
            bodies.append(expected.body)
            position, up_to_date = expected.end, expected.up_to_date
        assert joined(bodies, stream) == bytes(stream.stored[start:])

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def read_from_any_position(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        position = where % (stream.tail + 1)
        offset = token(stream.log, position)
        if stream.is_boundary(position):
            self._read(name, stream, offset, position)
        else:
            self._assert_problem(self.wire.ask("GET", name, offset=offset), 400)

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def read_from_any_boundary(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        position = chosen([0, *stream.ends], where)
        self._read(name, stream, token(stream.log, position), position)

    @some(live=True)
    @rule(pick=PICKS, distance=st.sampled_from([1, 2, 1023, 1024, 10**9]))
    def read_beyond_the_tail(self, pick: int, distance: int) -> None:
        name, stream = chosen(self.live(), pick)
        offset = token(stream.log, stream.tail + distance)
        self._assert_problem(self.wire.ask("GET", name, offset=offset), 400)

    @some(live=True)
    @rule(pick=PICKS, other=PICKS, where=PICKS)
    def read_with_an_offset_of_another_stream(self, pick: int, other: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        _, foreign = chosen(self.live(), other)
        if foreign is not stream:
            offset = token(foreign.log, chosen(foreign.handed_out, where))
            self._assert_problem(self.wire.ask("GET", name, offset=offset), 410)

    @some(live=True)
    @rule(pick=PICKS)
    def ask_for_the_metadata(self, pick: int) -> None:
        name, stream = chosen(self.live(), pick)
        self._assert_unchanged(name, stream)

    def teardown(self) -> None:
        for name, stream in self.live():
            self._read(name, stream, None, 0)
            assert self.wire.ask("DELETE", name).status == 204

    # How it is done

    def _new_name(self) -> str:
        return f"{self.prefix}/{next(self.serials)}"

    def _create(self, name: str, content_type: str, batch: Batch | None, closed: bool) -> None:
        body, parts = self._render(content_type, batch)
        answer = self._put(name, content_type, body, closed)
        assert answer.status == 201
        assert answer["Content-Type"] == content_type
        assert answer["Location"].endswith(f"/v1/stream/{name}")
        assert answer["Stream-Closed"] == ("true" if closed else None)
        log, _ = parse_token(answer["Stream-Next-Offset"])
        assert log > self.newest_log, "a log was used twice, or went back in time"
        self.newest_log = log
        stream = ModelStream(content_type, self.grid, log, closed)
        stream.hand_out(stream.tail_token)
        stream.add(parts)
        self.streams[name] = stream
        self._take_tail(answer, stream)

    def _put(self, name: str, content_type: str, body: bytes | None, closed: bool) -> Answer:
        extra = {"stream_closed": "true"} if closed else {}
        return self.wire.ask("PUT", name, body, content_type=content_type, **extra)

    def _render(self, content_type: str, batch: Batch | None) -> tuple[bytes, list[bytes]]:
        if batch is None:
            return b"", []
        if content_type == JSON:
            messages = batch.messages(self.serials)
            return batch.json_body(messages), messages
        body = batch.bytes_body(self.serials)
        return body, [body]

    def _post(
        self, name: str, stream: ModelStream, batch: Batch, **headers: str
    ) -> tuple[Answer, list[bytes]]:
        body, parts = self._render(stream.content_type, batch)
        answer = self.wire.ask("POST", name, body, content_type=stream.content_type, **headers)
        return answer, parts

    def _append(self, name: str, stream: ModelStream, batch: Batch, **headers: str) -> None:
        answer, parts = self._post(name, stream, batch, **headers)
        if stream.closed:
            self._assert_refused_as_closed(answer, stream)
            return
        assert answer.status == 204
        stream.add(parts)
        stream.closed = "stream_closed" in headers
        assert answer["Stream-Closed"] == ("true" if stream.closed else None)
        self._take_tail(answer, stream)

    def _produce(
        self,
        name: str,
        stream: ModelStream,
        batch: Batch,
        said: tuple[str, int, int],
        closing: bool,
    ) -> None:
        headers = producer_headers(said) | ({"stream_closed": "true"} if closing else {})
        answer, parts = self._post(name, stream, batch, **headers)
        if stream.closed:
            self._assert_refused_as_closed(answer, stream)
            return
        producer, epoch, seq = said
        assert answer.status == 200
        assert answer["Producer-Epoch"] == str(epoch)
        assert answer["Producer-Seq"] == str(seq)
        assert answer["Stream-Closed"] == ("true" if closing else None)
        stream.add(parts)
        stream.producers[producer] = (epoch, seq)
        stream.closed = closing
        self._take_tail(answer, stream)

    def _take_tail(self, answer: Answer, stream: ModelStream) -> None:
        assert answer["Stream-Next-Offset"] == stream.tail_token
        stream.hand_out(stream.tail_token)

    def _read(self, name: str, stream: ModelStream, offset: str | None, position: int) -> Slice:
        expected = stream.read(position)
        answer = self.wire.ask("GET", name, offset=offset)
        assert answer.status == 200
        assert answer.body == expected.body
        assert answer["Content-Type"] == stream.content_type
        assert answer["Stream-Next-Offset"] == token(stream.log, expected.end)
        assert answer["Stream-Up-To-Date"] == ("true" if expected.up_to_date else None)
        assert answer["Stream-Closed"] == ("true" if expected.closed else None)
        assert answer["Cache-Control"] == expected.cache_control(
            names_the_log=offset is not None and offset.startswith(f"{stream.log:016d}_")
        )
        assert answer["Stream-Cursor"] is None
        stream.hand_out(answer["Stream-Next-Offset"])
        self._assert_validator(name, stream, offset, expected, answer)
        return expected

    def _assert_validator(
        self,
        name: str,
        stream: ModelStream,
        offset: str | None,
        expected: Slice,
        answer: Answer,
    ) -> None:
        form = ETAG.fullmatch(answer["ETag"])
        assert form is not None
        log, start, end, flags = form.groups()
        assert (int(log), int(start), int(end)) == (stream.log, expected.start, expected.end)
        assert flags.endswith(":c") == expected.closed
        assert bool(flags) == expected.up_to_date
        again = self.wire.ask("GET", name, offset=offset, if_none_match=answer["ETag"])
        assert again.status == 304
        assert again.body == b""
        assert again["ETag"] == answer["ETag"]

    def _assert_unchanged(self, name: str, stream: ModelStream) -> None:
        head = self.wire.ask("HEAD", name)
        assert head.status == 200
        assert head["Content-Type"] == stream.content_type
        assert head["Stream-Next-Offset"] == stream.tail_token
        assert head["Stream-Closed"] == ("true" if stream.closed else None)
        assert head["Cache-Control"] == "no-store"

    def _assert_not_found(self, name: str, old_offset: str) -> None:
        for offset in (None, "now", old_offset):
            self._assert_problem(self.wire.ask("GET", name, offset=offset), 404)
        self._assert_problem(self.wire.ask("POST", name, b"1", content_type=JSON), 404)
        self._assert_problem(self.wire.ask("DELETE", name), 404)
        assert self.wire.ask("HEAD", name).status == 404

    def _assert_refused_as_closed(self, answer: Answer, stream: ModelStream) -> None:
        self._assert_problem(answer, 409)
        assert answer["Stream-Closed"] == "true"
        assert answer["Stream-Next-Offset"] == stream.tail_token

    def _assert_problem(self, answer: Answer, status: int) -> None:
        assert answer.status == status, answer.body
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["Cache-Control"] == "no-store"
        assert json.loads(answer.body)["status"] == status


def chosen(among: list[T], pick: int) -> T:
    return among[pick % len(among)]


def another_type(stream: ModelStream) -> str:
    return BYTES if stream.is_json else JSON


def producer_headers(said: tuple[str, int, int]) -> dict[str, str]:
    producer, epoch, seq = said
    return {"producer_id": producer, "producer_epoch": str(epoch), "producer_seq": str(seq)}


def joined(bodies: list[bytes], stream: ModelStream) -> bytes:
    if stream.is_json:
        return b"".join(body[1:-1] + b"," for body in bodies if body != b"[]")
    return b"".join(bodies)


def play(server: RunningServer, grid: int) -> None:
    wire = Wire(server.url)
    try:
        run_state_machine_as_test(lambda: ServerAgainstList(wire, grid), settings=SETTINGS)
    finally:
        wire.close()


@pytest.mark.timeout(600)
def test_the_server_agrees_with_a_plain_list(server: RunningServer) -> None:
    play(server, DEFAULT_CHUNK_BYTES)


@pytest.mark.timeout(600)
def test_the_server_agrees_with_a_plain_list_in_chunks_of_one_kibibyte(
    server_with_small_chunks: RunningServer,
) -> None:
    play(server_with_small_chunks, 1024)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("grid", [1024, 65536])
def test_the_server_agrees_with_a_plain_list_while_every_append_is_sealed_at_once(
    grid: int,
) -> None:
    env = {"DS_TIERING__SEAL_AGE_SECS": "0"}
    with RunningServer(workers=2, chunk_bytes=grid, env=env) as server:
        play(server, grid)
