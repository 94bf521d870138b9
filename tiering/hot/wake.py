"""What an append or a snapshot tells the followers of its stream."""

from dataclasses import dataclass
from enum import Enum


class State(Enum):
    OPEN = b"open"
    CLOSED = b"closed"
    DELETED = b"deleted"
    TRIMMED = b"trimmed"


@dataclass(frozen=True, slots=True)
class Wake:
    """The log grew from `start` to `end`; `cut` is the first chunk end between them.

    TRIMMED: the log did not grow, but is not retained before `start` any more.
    `data` holds the bytes when they are few enough to travel with the message.
    """

    log: int
    start: int
    end: int
    state: State
    cut: int | None
    data: bytes

    @classmethod
    def parse(cls, message: bytes) -> "Wake":
        head, _, data = message.partition(b"\n")
        log, start, end, state, cut = head.split(b" ")
        return cls(
            log=int(log),
            start=int(start),
            end=int(end),
            state=State(state),
            cut=int(cut) if cut != b"-1" else None,
            data=data,
        )

    @property
    def carries_data(self) -> bool:
        return len(self.data) == self.end - self.start
