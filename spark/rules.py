"""Which streams get snapshots, of which fold and how often."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import msgspec

from spark.folds import Fold, load
from tiering.errors import Refused
from tiering.membership import Member

_SIZE = re.compile("([0-9]+)(B|KiB|MiB|GiB)?")
_SIZES = {None: 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
_TIME = re.compile("([0-9]+)(s|m|h|d)")
_TIMES = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class Written(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule as it stands in the file."""

    fold: str
    bucket: str = "*"
    stream: str = "*"
    key: str | None = None
    tombstone: str | None = None
    content_type: str | None = None
    max_bad: int = 0
    bytes: int | str | None = None
    messages: int | None = None
    every: str | None = None


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    rule: list[Written]


@dataclass(frozen=True, slots=True)
class Rule:
    """A stream is due when one of its limits is reached; without any, when there is something new.

    `age_secs`: how old the oldest message may become that is in no snapshot.
    """

    bucket: str
    stream: str
    fold: Fold
    max_bad: int = 0
    bytes: int | None = None
    messages: int | None = None
    age_secs: int | None = None

    @classmethod
    def parse(cls, written: Written) -> "Rule":
        if written.max_bad < 0 or (written.messages or 0) < 0:
            raise Refused("max_bad and messages are no negative numbers")
        return cls(
            written.bucket,
            written.stream,
            Fold.parse(written.fold, written.key, written.tombstone, written.content_type),
            written.max_bad,
            None if written.bytes is None else _bytes(written.bytes),
            written.messages,
            None if written.every is None else _seconds(written.every),
        )

    @property
    def has_limits(self) -> bool:
        return (self.bytes, self.messages, self.age_secs) != (None, None, None)

    def covers(self, member: Member) -> bool:
        return fnmatchcase(member.bucket, self.bucket) and fnmatchcase(member.stream, self.stream)


def first(rules: Sequence[Rule], member: Member) -> Rule | None:
    """The first one that covers a stream speaks for it."""
    return next((rule for rule in rules if rule.covers(member)), None)


def read(path: Path) -> list[Rule]:
    """Refused in one line, for whatever a rule does not know."""
    try:
        parsed = msgspec.convert(tomllib.loads(path.read_text()), _File)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise Refused(f"{path}: {error}") from error
    return [_numbered(path, number, one) for number, one in enumerate(parsed.rule, start=1)]


def _numbered(path: Path, number: int, written: Written) -> Rule:
    try:
        return Rule.parse(written)
    except Refused as error:
        raise Refused(f"{path}: rule {number}: {error}") from error


def check(rules: Sequence[Rule]) -> None:
    """Functions that are not there are missed before anything is begun."""
    for name in sorted({rule.fold.name for rule in rules if ":" in rule.fold.name}):
        load(name)


def _bytes(given: int | str) -> int:
    match = _SIZE.fullmatch(str(given))
    if match is None:
        raise Refused(f"bytes={given!r} is no size: 1000, 64KiB, 16MiB, 1GiB")
    return int(match[1]) * _SIZES[match[2]]


def _seconds(given: str) -> int:
    match = _TIME.fullmatch(given)
    if match is None:
        raise Refused(f"every={given!r} is no time: 30s, 15m, 1h, 7d")
    return int(match[1]) * _TIMES[match[2]]
