"""Random histories of a few streams, played to the real server and to a plain list."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import initialize, precondition, rule
from support.batches import BATCHES, Batch
from support.model import JSON, ModelStream, token
from support.player import Player, chosen, producer_headers

BYTES = "application/octet-stream"
TEXT = "text/plain"
ZERO = token(0, 0)
DEEPEST_FORK = 3
SMALLEST_FILLING = len('"",')
LARGEST_FILLING = 64 * 1024

Rule = TypeVar("Rule", bound=Callable[..., None])

PICKS = st.integers(0, 2**16)
PRODUCERS = st.sampled_from(["a", "b"])


def some(*, live: bool = False, is_open: bool = False) -> Callable[[Rule], Rule]:
    """The rule needs a stream of this kind to be there, and picks one."""
    return precondition(
        lambda machine: (not live or machine.live()) and (not is_open or machine.open())
    )


class ServerAgainstList(Player):
    # Creation and deletion

    @initialize(
        batches=st.lists(BATCHES, min_size=1, max_size=1 + DEEPEST_FORK),
        content_type=st.sampled_from([JSON, BYTES]),
    )
    def a_family_to_begin_with(self, batches: list[Batch], content_type: str) -> None:
        """A stream, a fork of it, a fork of that; by chance alone few would be as deep."""
        self._create(self._new_name(), content_type, batches[0], closed=False)
        for batch in batches[1:]:
            source, stream = self.live()[-1]
            self._fork(source, stream, stream.tail, "end")
            self._append(*self.live()[-1], batch)

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
        self._delete(name)
        if name in self.hidden:
            return
        offsets = self.graveyard.setdefault(name, [])
        offsets += [token(stream.log, position) for position in stream.handed_out]
        self._assert_not_found(name, chosen(offsets, old))
        self._create(name, content_type, batch, closed=False)
        self._assert_problem(self.wire.ask("GET", name, offset=chosen(offsets, old)), 410)

    # Forks

    @some(live=True)
    @rule(pick=PICKS, where=PICKS, place=st.sampled_from(["end", "token", "alias", "sub"]))
    def fork(self, pick: int, where: int, place: str) -> None:
        source, stream = chosen(self.live(), pick)
        if stream.depth < DEEPEST_FORK:
            self._fork(source, stream, chosen([0, *stream.ends], where), place)

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def read_with_an_offset_of_the_source(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        if not stream.aliases:
            return
        log, border = chosen(sorted(stream.aliases.items()), where)
        position = chosen([end for end in [0, *stream.ends] if end <= border], where)
        self._read(name, stream, token(log, position), position)
        beyond = self.wire.ask("GET", name, offset=token(log, border + 1 + where))
        self._assert_problem(beyond, 400)

    @some(live=True)
    @rule(pick=PICKS)
    def delete(self, pick: int) -> None:
        self._delete(chosen(self.live(), pick)[0])

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
        if position < stream.earliest or stream.is_boundary(position):
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
        if foreign is not stream and foreign.log not in stream.aliases:
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
        for name, _ in self.live():
            self._delete(name)
        assert not self.hidden


def another_type(stream: ModelStream) -> str:
    return BYTES if stream.is_json else JSON


def joined(bodies: list[bytes], stream: ModelStream) -> bytes:
    if stream.is_json:
        return b"".join(body[1:-1] + b"," for body in bodies if body != b"[]")
    return b"".join(bodies)
