"""A half-open range of an object's bytes."""

from dataclasses import dataclass
from typing import Self

from tiering.errors import Corrupt


@dataclass(frozen=True, slots=True)
class Span:
    """Without an end, it reaches to the object's."""

    start: int
    end: int | None

    @classmethod
    def of(cls, start: int | None, end: int | None) -> Self:
        return cls(start or 0, end)

    def __post_init__(self) -> None:
        if self.start < 0 or (self.end is not None and self.end < self.start):
            raise ValueError(f"no range goes from {self.start} to {self.end}")

    @property
    def is_empty(self) -> bool:
        return self.end == self.start

    @property
    def is_everything(self) -> bool:
        return self.start == 0 and self.end is None

    def length_in(self, size: int) -> int:
        """How many bytes of an object of that size it covers; all of them must be there."""
        end = size if self.end is None else self.end
        if not self.start <= end <= size:
            raise Corrupt(f"A stored object has {size} bytes, fewer than were written.")
        return end - self.start
