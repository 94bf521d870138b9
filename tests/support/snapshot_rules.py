"""The random histories in a bucket, with snapshots, what they take away, and bootstraps."""

import json

from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule
from support.bootstrapped import Bootstrap, fold, parse
from support.machine import BATCHES, PICKS, Batch, ServerAgainstList, chosen, some
from support.model import ModelStream, Slice, token
from support.wire import Answer, Wire

FOLDED = "application/vnd.test.fold"


class SnapshotsAgainstList(ServerAgainstList):
    """The body of every snapshot is the fold of all messages before it."""

    def __init__(self, wire: Wire, grid: int) -> None:
        super().__init__(wire, grid)
        assert wire.root == "/ds/"

    @initialize()
    def a_bucket(self) -> None:
        self._make_bucket()

    # Publishing

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def publish(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        position = chosen(_boundaries(stream), where)
        answer = self._publish(name, stream, position, _folded(stream, position))
        assert answer.status == 204, answer.body
        stream.earliest = stream.snapshot = position
        stream.handed_out = [at for at in stream.handed_out if at >= position] or [position]
        self._assert_snapshot(name, stream)

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def publish_where_it_is_refused(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        inside = {stream.earliest + 1 + where % (stream.tail - stream.earliest + 1)}
        refusals = {stream.tail + 1 + where: 409}
        refusals |= dict.fromkeys(inside - {*stream.ends, stream.tail + 1}, 400)
        refusals |= {stream.earliest - 1: 410} if stream.earliest else {}
        refusals |= {stream.snapshot: 409} if stream.snapshot is not None else {}
        for position, status in refusals.items():
            answer = self._publish(name, stream, position, b"something else")
            self._assert_problem(answer, status)
        self._assert_snapshot(name, stream)

    @some(live=True)
    @rule(pick=PICKS)
    def delete_the_snapshot(self, pick: int) -> None:
        name, stream = chosen(self.live(), pick)
        position = stream.snapshot if stream.snapshot is not None else stream.tail
        answer = self.wire.ask("DELETE", f"{name}/snapshot/{token(stream.log, position)}")
        self._assert_problem(answer, 404 if stream.snapshot is None else 409)

    # Reading

    @some(live=True)
    @rule(pick=PICKS)
    def read_the_snapshot(self, pick: int) -> None:
        name, stream = chosen(self.live(), pick)
        self._assert_snapshot(name, stream)

    @some(live=True)
    @rule(pick=PICKS, where=PICKS)
    def read_behind_the_retained_range(self, pick: int, where: int) -> None:
        name, stream = chosen(self.live(), pick)
        if stream.earliest > 0:
            position = where % stream.earliest
            self._read(name, stream, token(stream.log, position), position)

    @some(live=True)
    @rule(
        pick=PICKS, batches=st.lists(BATCHES, max_size=3), live=st.sampled_from([None, "long-poll"])
    )
    def bootstrap_and_follow(self, pick: int, batches: list[Batch], live: str | None) -> None:
        name, stream = chosen(self.live(), pick)
        begun = self._bootstrap(name, stream)
        seen, state = stream.tail, begun.state
        for batch in batches:
            self._append(name, stream, batch)
        while seen < stream.tail:
            expected = stream.read(seen)
            answer = self.wire.ask("GET", name, offset=token(stream.log, seen), live=live)
            assert (answer.status, answer.body) == (200, expected.body)
            state = fold(stream.messages(seen, expected.end), state)
            seen = expected.end
        assert state == _folded(stream, stream.tail)

    @rule(limit=st.integers(1, 3))
    def list_the_bucket(self, limit: int) -> None:
        listed: list[dict[str, object]] = []
        page = {"has_more": True, "next_cursor": ""}
        while page["has_more"]:
            target = f"{self.prefix}/streams?after={page['next_cursor']}&limit={limit}"
            page = json.loads(self.wire.ask("GET", target).body)
            listed += page["streams"]
        assert [(one["stream_id"], one["status"], one["tail_offset"]) for one in listed] == sorted(
            (name.split("/")[1], "Closed" if stream.closed else "Open", stream.tail)
            for name, stream in self.live()
        )

    def teardown(self) -> None:
        for name, stream in self.live():
            self._bootstrap(name, stream)
        super().teardown()
        assert self.wire.ask("DELETE", self.prefix).status == 204

    # How it is done

    def _make_bucket(self) -> None:
        """The rules that begin a history come in any order."""
        if self.wire.ask("GET", self.prefix).status == 404:
            assert self.wire.ask("PUT", self.prefix).status == 201

    def _create(self, name: str, content_type: str, batch: Batch | None, closed: bool) -> None:
        self._make_bucket()
        super()._create(name, content_type, batch, closed)

    def _fork(self, source: str, stream: ModelStream, border: int, place: str) -> None:
        if place == "end" or border >= stream.earliest:
            super()._fork(source, stream, border, place)
            return
        headers = {"stream_forked_from": f"{self.wire.root}{source}"}
        headers["stream_fork_offset"] = token(stream.log, border)
        self._assert_problem(self.wire.ask("PUT", self._new_name(), **headers), 400)

    def _read(self, name: str, stream: ModelStream, offset: str | None, position: int) -> Slice:
        """Where the stream does not begin any more, the answer tells where it does."""
        if position >= stream.earliest:
            return super()._read(name, stream, offset, position)
        answer = self.wire.ask("GET", name, offset=offset)
        self._assert_problem(answer, 410)
        first = token(stream.log, stream.earliest)
        assert answer["Stream-Next-Offset"] == first
        return super()._read(name, stream, first, stream.earliest)

    def _publish(self, name: str, stream: ModelStream, position: int, body: bytes) -> Answer:
        target = f"{name}/snapshot/{token(stream.log, position)}"
        return self.wire.ask("PUT", target, body, content_type=FOLDED)

    def _assert_snapshot(self, name: str, stream: ModelStream) -> None:
        """What HEAD, redirect and snapshot say is the same."""
        head, latest = self.wire.ask("HEAD", name), self.wire.ask("GET", f"{name}/snapshot")
        if stream.snapshot is None:
            assert head["Stream-Snapshot-Offset"] is None
            self._assert_problem(latest, 404)
            return
        offset = token(stream.log, stream.snapshot)
        assert head["Stream-Snapshot-Offset"] == offset
        assert latest.status == 307
        assert latest["Location"] == f"{self.wire.root}{name}/snapshot/{offset}"
        answer = self.wire.ask("GET", f"{name}/snapshot/{offset}")
        assert (answer.status, answer["Content-Type"]) == (200, FOLDED)
        assert answer.body == _folded(stream, stream.snapshot)
        is_all = stream.snapshot == stream.tail
        assert answer["Stream-Up-To-Date"] == ("true" if is_all else None)

    def _bootstrap(self, name: str, stream: ModelStream) -> Bootstrap:
        answer = self.wire.ask("GET", f"{name}/bootstrap")
        assert answer.status == 200
        found = parse(dict(answer.headers), answer.body)
        assert found.next_offset == stream.tail_token
        assert answer["Stream-Closed"] == ("true" if stream.closed else None)
        has_none = stream.snapshot is None
        at = "-1" if stream.snapshot is None else token(stream.log, stream.snapshot)
        assert found.snapshot_offset == at
        assert found.snapshot.content_type == ("application/octet-stream" if has_none else FOLDED)
        assert found.messages == stream.messages(stream.earliest, stream.tail)
        assert all(part.content_type == stream.content_type for part in found.updates)
        assert found.state == _folded(stream, stream.tail)
        return found


def _folded(stream: ModelStream, position: int) -> bytes:
    return fold(stream.messages(0, position))


def _boundaries(stream: ModelStream) -> list[int]:
    return [end for end in [0, *stream.ends] if end >= stream.earliest]
