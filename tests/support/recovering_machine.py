"""The random histories, with a Redis that is lost now and then."""

from typing import Any

from hypothesis.stateful import invariant, rule
from support.machine import ServerAgainstList
from support.model import ModelStream, parse_token, token
from support.repairs import assert_sound, lose_redis, recover_what_there_is, seal_all, stop
from support.server import RunningServer
from support.wire import Wire

from tiering.hot.keys import stream_keys

State = tuple[dict[str, tuple[int, int]], bytes | None]


class RecoveringServerAgainstList(ServerAgainstList):
    """What was sealed must be there; what was not may be there, in whole appends."""

    def __init__(self, server: RunningServer, wire: Wire, grid: int) -> None:
        super().__init__(wire, grid)
        self.server = server
        self.states: dict[int, dict[int, State]] = {}
        """By log and end: producers and Stream-Seq."""
        self.losses_left = 2

    @invariant()
    def remember(self) -> None:
        for _, stream in self.live():
            known = self.states.setdefault(stream.log, {})
            known[stream.tail] = (dict(stream.producers), stream.last_seq)

    @rule()
    def lose_redis(self) -> None:
        """After everything was sealed: what a loss takes away otherwise is a matter of moments,
        and what is played next must not depend on that."""
        if self.losses_left > 0:
            self.losses_left -= 1
            self._lose(is_sealed=True)

    def teardown(self) -> None:
        self.remember()
        self._lose(is_sealed=False)
        super().teardown()

    def _lose(self, is_sealed: bool) -> None:
        if is_sealed:
            seal_all(self.server)
        sealed = self._sealed()
        stop(self.server, self.wire)
        lose_redis(self.server)
        recover_what_there_is(self.server)
        self.server.start()
        for name, stream in self.live():
            kept = max((end for end in stream.append_ends if end <= sealed[name]), default=0)
            self._compare(name, stream, is_sealed, kept)
        assert_sound(self.server)

    def _sealed(self) -> dict[str, int]:
        """How far each stream is in object storage, at least; 0 if it has nothing of its own."""
        with self.server.redis() as redis:
            known = {
                name: redis.hmget(stream_keys(name).meta, "sealed", "base")
                for name, _ in self.live()
            }
        return {
            name: int(sealed) if sealed != base else 0 for name, (sealed, base) in known.items()
        }

    def _compare(self, name: str, stream: ModelStream, is_sealed: bool, kept: int) -> None:
        head = self.wire.ask("HEAD", name)
        if head.status == 404:
            assert not is_sealed
            assert kept == 0
            del self.streams[name]
            return
        log, end = parse_token(head["Stream-Next-Offset"] or "")
        is_closed = head["Stream-Closed"] == "true"
        assert end in (0, *stream.append_ends)
        assert end >= kept
        assert is_closed <= stream.closed
        if is_sealed or is_closed:
            assert (end, is_closed) == (stream.tail, stream.closed)
        assert log == stream.log if is_closed else log > stream.log
        old = stream.log
        lost = [position for position in stream.handed_out if position > end]
        self._go_back(stream, log, end, is_closed)
        self._read(name, stream, None, 0)
        self._assert_old_offsets(name, stream, old, lost)

    def _go_back(self, stream: ModelStream, log: int, end: int, is_closed: bool) -> None:
        states = self.states.get(stream.log, {})
        known = max((position for position in states if position <= end), default=None)
        state: Any = ({}, None) if known is None else states[known]
        self.states[log] = {at: past for at, past in states.items() if at <= end}
        stream.producers, stream.last_seq = dict(state[0]), state[1]
        stream.log, stream.closed = log, is_closed
        stream.ends = [position for position in stream.ends if position <= end]
        stream.append_ends = [position for position in stream.append_ends if position <= end]
        stream.handed_out = [position for position in stream.handed_out if position <= end]
        del stream.stored[end:]
        self.newest_log = max(self.newest_log, log)

    def _assert_old_offsets(
        self, name: str, stream: ModelStream, old: int, lost: list[int]
    ) -> None:
        for position in stream.handed_out[-3:]:
            self._read(name, stream, token(old, position), position)
        for position in lost[-3:]:
            answer = self.wire.ask("GET", name, offset=token(old, position))
            self._assert_problem(answer, 410)
            assert answer["Stream-Next-Offset"] == stream.tail_token
