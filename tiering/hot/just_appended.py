"""What this worker has appended a moment ago, for the sealer."""

from collections import OrderedDict
from collections.abc import Sequence

from tiering.hot.connection import LARGE_BYTES

Key = tuple[str, int, int]


class JustAppended:
    """Large payloads, kept from their acknowledgement until they are sealed.

    Bytes between two positions of a log never change, unless Redis has gone back in time, and
    then it is another run of it.
    """

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity = capacity_bytes
        self._held = 0
        self._payloads: OrderedDict[Key, bytes] = OrderedDict()

    def note(self, run: str, log: int, start: int, data: bytes) -> None:
        if LARGE_BYTES <= len(data) <= self._capacity:
            self._forget((run, log, start))
            self._payloads[run, log, start] = data
            self._held += len(data)
            while self._held > self._capacity:
                self._forget(next(iter(self._payloads)))

    def take(self, run: str, log: int, start: int, end: int) -> Sequence[bytes]:
        """Whole payloads that make up the range and are not kept any longer, or nothing."""
        found = []
        position = start
        while position < end:
            data = self._payloads.get((run, log, position))
            if data is None or position + len(data) > end:
                return ()
            found.append((position, data))
            position += len(data)
        for position, _ in found:
            self._forget((run, log, position))
        return [data for _, data in found]

    def _forget(self, key: Key) -> None:
        self._held -= len(self._payloads.pop(key, b""))
