"""What a recovery found missing or damaged, kept in Redis until somebody was told."""

import msgspec

from tiering.hot.keys import LOSSES
from tiering.hot.pipe import Pipe


class Missing(msgspec.Struct, frozen=True):
    """`lost_bytes` were written according to the manifest; more may have been."""

    stream: str
    lost_bytes: int
    recovered_bytes: int
    reason: str


Loss = Missing | str
"""A text tells of damage."""

_decoder: msgspec.json.Decoder[Loss] = msgspec.json.Decoder(Missing | str)


class Losses:
    """A stream that came back shortened looks whole to the next run, so a run that is interrupted
    leaves to the next one what it knew."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._found: dict[Loss, None] = {}
        self._fresh: dict[Loss, None] = {}

    async def recall(self) -> None:
        known = await self._pipe.call("SMEMBERS", LOSSES)
        self._found = dict.fromkeys(_decoder.decode(text) for text in sorted(known))

    def add(self, loss: Loss) -> None:
        if loss not in self._found:
            self._found[loss] = self._fresh[loss] = None

    async def keep(self) -> None:
        """To be called before anything is done that would hide what was found."""
        if fresh := list(self._fresh):
            await self._pipe.call("SADD", LOSSES, *map(msgspec.json.encode, fresh))
            for loss in fresh:
                self._fresh.pop(loss, None)

    @property
    def missing(self) -> list[Missing]:
        return [loss for loss in self._found if isinstance(loss, Missing)]

    @property
    def damaged(self) -> list[str]:
        return [loss for loss in self._found if isinstance(loss, str)]
