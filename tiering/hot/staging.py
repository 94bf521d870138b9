"""Large payloads go into Redis block by block, and not through Lua."""

from collections import OrderedDict

from tiering.hot.connection import LARGE_BYTES
from tiering.hot.keys import stream_keys
from tiering.hot.scripts import BLOCK_BYTES

_MOST_STREAMS = 1000

Split = tuple[bytes | memoryview, dict[str, memoryview]]


class Staging:
    """Cuts a payload where blocks will begin, by a guess of where its append will.

    A script that is handed a megabyte copies and hashes it several times. A block that is set
    beside it, in the same transaction, only has to be renamed. If the guess was wrong the script
    takes the blocks apart again: that is slow, so the next one is not guessed.
    """

    def __init__(self) -> None:
        self._ends: OrderedDict[str, int] = OrderedDict()

    def split(self, name: str, data: bytes) -> Split:
        """What goes through the script, and the blocks after it with their keys."""
        end = self._ends.get(name)
        if end is None or len(data) < LARGE_BYTES:
            return data, {}
        room = -end % BLOCK_BYTES
        if len(data) - room < LARGE_BYTES:
            return data, {}
        view = memoryview(data)
        starts = range(room, len(data), BLOCK_BYTES)
        keys = stream_keys(name).staged(len(starts))
        blocks = (view[start : start + BLOCK_BYTES] for start in starts)
        return view[:room], dict(zip(keys, blocks, strict=True))

    def learn(self, name: str, size: int, tail: int, *, was_split: bool) -> None:
        """An append of that size ended there."""
        guessed = self._ends.pop(name, None)
        if size < LARGE_BYTES or (was_split and guessed != tail - size):
            return
        self._ends[name] = tail
        if len(self._ends) > _MOST_STREAMS:
            self._ends.popitem(last=False)
