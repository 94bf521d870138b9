"""Plays one step of a history to the real server and to the model, and compares the answers."""

import itertools
import json
import re
import uuid
from typing import TypeVar

from hypothesis.stateful import RuleBasedStateMachine
from support.batches import Batch
from support.model import JSON, ModelStream, Slice, parse_token, token
from support.wire import Answer, Wire

ETAG = re.compile(r'"([0-9]+):([0-9]+):([0-9]+)((?::t)?(?::c)?)"')

T = TypeVar("T")


class Player(RuleBasedStateMachine):
    """Holds the streams that there should be; which step comes next is decided elsewhere."""

    def __init__(self, wire: Wire, grid: int) -> None:
        super().__init__()
        self.wire = wire
        self.grid = grid
        self.prefix = uuid.uuid4().hex
        self.serials = itertools.count(1)
        self.streams: dict[str, ModelStream] = {}
        self.hidden: dict[str, ModelStream] = {}
        """Deleted streams whose forks live on."""
        self.graveyard: dict[str, list[str]] = {}
        """Offsets of deleted streams, by the name they had."""
        self.newest_log = 0
        self.deepest = 0

    def live(self) -> list[tuple[str, ModelStream]]:
        return list(self.streams.items())

    def open(self) -> list[tuple[str, ModelStream]]:
        return [(name, stream) for name, stream in self.streams.items() if not stream.closed]

    def _new_name(self) -> str:
        return f"{self.prefix}/{next(self.serials)}"

    def _create(self, name: str, content_type: str, batch: Batch | None, closed: bool) -> None:
        body, parts = self._render(content_type, batch)
        answer = self._put(name, content_type, body, closed)
        assert answer.status == 201
        assert answer["Content-Type"] == content_type
        assert answer["Location"].endswith(f"{self.wire.root}{name}")
        assert answer["Stream-Closed"] == ("true" if closed else None)
        log, _ = parse_token(answer["Stream-Next-Offset"])
        assert log > self.newest_log, "a log was used twice, or went back in time"
        self.newest_log = log
        stream = ModelStream(content_type, self.grid, log, closed)
        stream.hand_out(stream.tail_token)
        stream.add(parts)
        self.streams[name] = stream
        self._take_tail(answer, stream)

    def _fork(self, source: str, stream: ModelStream, border: int, place: str) -> None:
        name = self._new_name()
        headers = {"stream_forked_from": f"{self.wire.root}{source}"}
        match place:
            case "end":
                border = stream.tail
            case "token":
                headers["stream_fork_offset"] = token(stream.log, border)
            case "alias":
                logs = [log for log, last in stream.aliases.items() if border <= last]
                headers["stream_fork_offset"] = token(chosen([stream.log, *logs], border), border)
            case "sub":
                border = self._one_message_in(stream, border, headers)
        answer = self.wire.ask("PUT", name, **headers)
        assert answer.status == 201, answer.body
        assert answer["Content-Type"] == stream.content_type
        log, _ = parse_token(answer["Stream-Next-Offset"])
        assert log > self.newest_log
        self.newest_log = log
        made = self.streams[name] = stream.fork(source, border, log)
        self.deepest = max(self.deepest, made.depth)
        self._take_tail(answer, made)
        assert self.wire.ask("PUT", name, **headers).status == 200

    def _one_message_in(self, stream: ModelStream, border: int, headers: dict[str, str]) -> int:
        """A place that is named by the one before it."""
        headers["stream_fork_offset"] = token(stream.log, border)
        following = [end for end in stream.ends if end > border]
        if not following:
            return border
        sub_offset = 1 if stream.is_json else following[0] - border
        headers["stream_fork_sub_offset"] = str(sub_offset)
        return following[0]

    def _delete(self, name: str) -> None:
        assert self.wire.ask("DELETE", name).status == 204
        stream = self.streams.pop(name)
        if self._has_forks(name):
            self.hidden[name] = stream
            self._assert_hidden(name, stream)
            return
        while stream.parent in self.hidden and not self._has_forks(stream.parent):
            name, stream = stream.parent, self.hidden.pop(stream.parent)
            assert self.wire.ask("HEAD", name).status == 404

    def _has_forks(self, name: str) -> bool:
        others = (*self.streams.values(), *self.hidden.values())
        return any(stream.parent == name for stream in others)

    def _assert_hidden(self, name: str, stream: ModelStream) -> None:
        assert self.wire.ask("HEAD", name).status == 410
        self._assert_problem(self.wire.ask("GET", name), 410)
        self._assert_problem(self.wire.ask("GET", name, offset=stream.tail_token), 410)
        self._assert_problem(self.wire.ask("POST", name, b"1", content_type=JSON), 410)
        self._assert_problem(self.wire.ask("DELETE", name), 410)
        self._assert_problem(self._put(name, stream.content_type, None, stream.closed), 409)

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


def producer_headers(said: tuple[str, int, int]) -> dict[str, str]:
    producer, epoch, seq = said
    return {"producer_id": producer, "producer_epoch": str(epoch), "producer_seq": str(seq)}
