"""What the rest of the house knows of object storage."""

from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from tiering.errors import Corrupt

PIECE_BYTES = 256 * 1024


class ObjectMissing(Corrupt):
    """There is no object of that name. Who did not reckon with it has found damage."""

    def __init__(self, key: str = "A stored object") -> None:
        super().__init__(f"{key} is missing.")


@contextmanager
def named(key: str) -> Iterator[None]:
    """Damage found inside is told with the name of the object that has it."""
    try:
        yield
    except ObjectMissing as error:
        raise ObjectMissing(key) from error
    except Corrupt as error:
        raise Corrupt(f"{key}: {error}") from error


@dataclass(frozen=True, slots=True)
class ObjectInfo:
    """Listings leave `metadata` empty: no store tells it there. They have a `tag` instead, which
    is another one after the object was replaced; empty when the store cannot tell."""

    key: str
    size: int
    metadata: Mapping[str, str] = field(default_factory=dict)
    tag: str = ""


class ObjectStore(Protocol):
    """Named bytes that survive this machine's failures as well as the store itself does.

    A key is a relative URL path (`names.py`); it is never also the folder of another key.
    Ranges are half-open, and reach at most to the object's end: beyond it, `Corrupt`.
    What the store cannot do now is `Unavailable`, after a few attempts.
    Used as an async context manager; nothing works outside it.
    """

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

    async def check(self) -> None:
        """Refused, in one line, when the store cannot be used or keeps no put-if-absent."""

    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        """Whether this call wrote the object. Either way there is one now, and it is durable.

        False may also mean that an earlier attempt of this very call wrote it and its answer
        was lost: compare.
        """

    async def put(self, key: str, body: bytes) -> None:
        """Writes or replaces the object as a whole; its metadata are gone."""

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        """Like `put`, of more than should be held in memory. Nothing is to be seen of it before
        all pieces have come; what `pieces` raises is raised here, and nothing is written."""

    async def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        """All bytes asked for, or an error; ObjectMissing when there is no such object."""

    def stream(
        self, key: str, start: int | None = None, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Like `get`, in pieces of at most PIECE_BYTES; can break off with Unavailable.

        Who may leave before the end uses `contextlib.aclosing`, or keeps a connection busy.
        """

    async def address(self, key: str, *, signed: bool) -> str:
        """What an edge asks for to get the object: a URL, which anyone may use for some minutes
        if it is signed; for a directory, the path below wherever its files are served."""

    async def head(self, key: str) -> ObjectInfo | None:
        """None when there is no such object."""

    def list(self, prefix: str = "", after: str | None = None) -> AsyncIterator[ObjectInfo]:
        """Every object whose key begins with the prefix, once, fetched in pages.

        The keys of one folder come together and in byte order. The order of folders is the
        store's own: SeaweedFS puts `a/` before `a-b/`, S3 and directories behind it. `after`
        is a key of the folder that is listed, or the last one of a listing to go on with.
        """

    async def delete(self, keys: Sequence[str]) -> None:
        """Removes the objects, in batches. One that is not there is no error."""
