"""The random histories in a bucket, with a Redis that is lost now and then."""

from hypothesis.stateful import rule
from support.model import ModelStream, parse_token
from support.repairs import assert_sound, lose_redis, recover_what_there_is, seal_all, stop
from support.server import RunningServer
from support.snapshot_rules import SnapshotsAgainstList
from support.wire import Wire


class RecoveringSnapshotsAgainstList(SnapshotsAgainstList):
    """What was sealed must be there, and every snapshot that object storage was told of."""

    losses_left = 8

    def __init__(self, server: RunningServer, wire: Wire, grid: int) -> None:
        super().__init__(wire, grid)
        self.server = server

    @rule()
    def lose_redis(self) -> None:
        """After everything was sealed: see `recovering_machine`."""
        if type(self).losses_left > 0:
            type(self).losses_left -= 1
            self._lose(is_sealed=True)

    def teardown(self) -> None:
        self._lose(is_sealed=False)
        super().teardown()

    def _lose(self, is_sealed: bool) -> None:
        if is_sealed:
            seal_all(self.server)
        stop(self.server, self.wire)
        lose_redis(self.server)
        recover_what_there_is(self.server)
        self.server.start()
        for name, stream in self.live():
            self._compare(name, stream, is_sealed)
        if is_sealed:
            self.list_the_bucket(limit=2)
        assert_sound(self.server)

    def _compare(self, name: str, stream: ModelStream, is_sealed: bool) -> None:
        head = self.wire.ask("HEAD", name)
        if head.status == 404:
            assert not is_sealed
            del self.streams[name]
            return
        log, end = parse_token(head["Stream-Next-Offset"] or "")
        offset = head["Stream-Snapshot-Offset"]
        snapshot = None if offset is None else parse_token(offset)[1]
        is_closed = head["Stream-Closed"] == "true"
        assert end in (0, *stream.ends)
        assert is_closed <= stream.closed
        if is_sealed:
            assert (end, is_closed, snapshot) == (stream.tail, stream.closed, stream.snapshot)
        self._go_back(stream, log, end, is_closed, snapshot)
        self._assert_snapshot(name, stream)
        self._bootstrap(name, stream)
        self._read(name, stream, None, 0)

    def _go_back(
        self, stream: ModelStream, log: int, end: int, is_closed: bool, snapshot: int | None
    ) -> None:
        """The snapshot that is in force now may be one of those before."""
        stream.log, stream.closed = log, is_closed
        stream.snapshot, stream.earliest = snapshot, snapshot or 0
        stream.ends = [position for position in stream.ends if position <= end]
        stream.handed_out = [at for at in stream.handed_out if stream.earliest <= at <= end]
        del stream.stored[end:]
        stream.hand_out(stream.tail_token)
        self.newest_log = max(self.newest_log, log)
