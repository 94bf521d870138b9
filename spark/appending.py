"""Appends as an idempotent producer: however often it is begun again, each message is there once.

The epoch says which turn it is (a batch of a query, a run of a job) and, in its lower bits, what
the producer has for the stream in it. Who comes again with something else finds out before
anything is written: its sequence numbers would stand for other messages.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count

from spark import refusals
from spark.piles import Pile
from spark.surface import Answer, Surface, path_of
from tiering.errors import Invalid, StreamError
from tiering.membership import member, member_of
from tiering.messages import MOST_MESSAGES, encode
from tiering.stream import ContentType

_DIGEST_BITS = 22
_BEYOND_ALL = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Turn:
    """Whose appends these are, and which turn of theirs it is."""

    producer: str
    number: int

    def epoch(self, digest: int) -> int:
        """Never 0, so that asking with 0 always tells the epoch that is known."""
        return (self.number + 1) << _DIGEST_BITS | digest % (1 << _DIGEST_BITS)

    def headers(self, epoch: int, seq: int) -> dict[str, str]:
        return {
            "Producer-Id": self.producer,
            "Producer-Epoch": str(epoch),
            "Producer-Seq": str(seq),
        }


@dataclass(slots=True)
class Tally:
    """`repeated` of the appends had been there before."""

    messages: int = 0
    appends: int = 0
    repeated: int = 0


class Appender:
    """`content_type` is what streams that are missing are made with; None makes none."""

    def __init__(
        self, surface: Surface, turn: Turn, content_type: str | None, append_bytes: int
    ) -> None:
        self._surface = surface
        self._turn = turn
        self._wanted_type = content_type
        self._append_bytes = append_bytes
        self._types: dict[str, ContentType] = {}
        self.tally = Tally()

    def check(self, name: str, message: bytes) -> None:
        """Invalid for what the stream would not take as one message."""
        if not message:
            raise Invalid(f"{name}: a payload is empty, and a message has at least one byte.")
        content_type = self._type(name)
        if content_type.is_json and not _is_one(content_type, message):
            raise Invalid(f"{name}: a payload is not one JSON value: {_excerpt(message)}.")

    def prepare(self, pile: Pile) -> None:
        """Conflict when this turn brought the stream something else before. Makes it if need be."""
        epoch, known = self._epoch(pile), self._known_epoch(pile.name)
        if known is None or known == epoch:
            return
        turn, known_turn = (one >> _DIGEST_BITS for one in (epoch, known))
        if known_turn == turn:
            raise refusals.changed(pile.name, self._turn.producer, self._turn.number)
        if known_turn > turn:
            raise self._fenced(pile.name, known)

    def append(self, pile: Pile, messages: Iterable[bytes]) -> None:
        epoch = self._epoch(pile)
        for seq, body in zip(count(), self._bodies(pile.name, messages)):
            self._send(pile.name, body, epoch, seq)
        self.tally.messages += pile.count

    def _type(self, name: str) -> ContentType:
        found = self._types.get(name)
        if found is None:
            found = self._types[name] = ContentType(self._wanted_type or self._ask_type(name))
        return found

    def _ask_type(self, name: str) -> str:
        answer = self._surface.ask("HEAD", _path(name))
        if answer.status != 200:
            raise refusals.of(name, answer)
        return str(answer.headers["Content-Type"])

    def _epoch(self, pile: Pile) -> int:
        """One append is there whole or not at all, whatever the order in it; of several, each
        must be the same again."""
        if self._type(pile.name).is_json and self._fits_one(pile):
            return self._turn.epoch(pile.set_digest)
        return self._turn.epoch(pile.order_digest ^ self._append_bytes)

    def _fits_one(self, pile: Pile) -> bool:
        return pile.count <= MOST_MESSAGES and pile.bytes + pile.count + 1 <= self._append_bytes

    def _known_epoch(self, name: str) -> int | None:
        """Asked with an append that cannot be taken."""
        answer = self._post(name, b"0", self._turn.headers(0, _BEYOND_ALL))
        if answer.status == 404 and self._wanted_type is not None:
            self._create(name)
            return None
        if answer.status == 403:
            return answer.number("Producer-Epoch")
        expected = answer.number("Producer-Expected-Seq")
        if expected is None:
            raise refusals.of(name, answer)
        if expected > 0:
            raise refusals.taken(name, self._turn.producer)
        return None

    def _create(self, name: str) -> None:
        answer = self._surface.ask("PUT", _path(name), headers=self._content_type(name))
        if answer.status not in (200, 201):
            raise Invalid(f"{name} cannot be made: {answer.detail}")

    def _send(self, name: str, body: bytes, epoch: int, seq: int) -> None:
        answer = self._post(name, body, self._turn.headers(epoch, seq))
        if answer.status == 403:
            raise self._fenced(name, answer.number("Producer-Epoch") or epoch)
        if answer.status not in (200, 204):
            raise refusals.of(name, answer)
        self.tally.appends += 1
        self.tally.repeated += answer.status == 204

    def _fenced(self, name: str, known: int) -> StreamError:
        theirs = (known >> _DIGEST_BITS) - 1
        return refusals.fenced(name, self._turn.producer, self._turn.number, theirs)

    def _post(self, name: str, body: bytes, headers: dict[str, str]) -> Answer:
        return self._surface.ask("POST", _path(name), body, headers | self._content_type(name))

    def _content_type(self, name: str) -> dict[str, str]:
        return {"Content-Type": self._type(name).text}

    def _bodies(self, name: str, messages: Iterable[bytes]) -> Iterator[bytes]:
        """An array counts as its elements, so each is an element of one more array."""
        if not self._type(name).is_json:
            return iter(messages)
        return (b"[%b]" % b",".join(some) for some in _together(messages, self._append_bytes))


def _is_one(content_type: ContentType, message: bytes) -> bool:
    """As the server will see it among others."""
    try:
        found = encode(content_type, b"[%b]" % message)
    except Invalid:
        return False
    return bool(found.data) and not found.lengths


def _excerpt(message: bytes) -> str:
    return repr(message[:60].decode(errors="replace"))


def _together(messages: Iterable[bytes], most_bytes: int) -> Iterator[list[bytes]]:
    """As many as fit; one that does not fit by itself goes alone."""
    some: list[bytes] = []
    size = 1
    for message in messages:
        if some and (size + len(message) + 1 > most_bytes or len(some) == MOST_MESSAGES):
            yield some
            some, size = [], 1
        some.append(message)
        size += len(message) + 1
    if some:
        yield some


def _path(name: str) -> str:
    """Refuses what is no stream but would lead somewhere: a snapshot, a listing."""
    try:
        found = member_of(name)
    except ValueError:
        raise Invalid(f"{name!r} is no name of a stream: write __ds/bucket/stream.") from None
    if found is not None:
        member(found.bucket, found.stream)
    return path_of(name)
