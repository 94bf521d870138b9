"""What a history can be folded into, and how a snapshot tells which fold it was made by."""

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote

from spark.pointer import Pointer, Tombstone
from tiering.errors import Refused
from tiering.stream import DEFAULT_CONTENT_TYPE

STATE = "state"
LAST_BY_KEY = "last-by-key"
CONCAT = "concat"

Function = Callable[[bytes | None, Iterator[bytes]], bytes | Iterable[bytes]]

_FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
_MEDIA_TYPE = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+/[!#$%&'*+.^_`|~0-9A-Za-z-]+( *;[ -~]*)?")
_JSON = "application/json"
_PLAIN = "/=~-_.:+,"


@dataclass(frozen=True, slots=True)
class Fold:
    """`name` is one of ours, or `module:function`."""

    name: str
    key: Pointer | None = None
    tombstone: Tombstone | None = None
    content_type: str | None = None

    @classmethod
    def parse(
        cls,
        name: str,
        key: str | None = None,
        tombstone: str | None = None,
        content_type: str | None = None,
    ) -> "Fold":
        if name not in (STATE, LAST_BY_KEY, CONCAT) and not _FUNCTION.fullmatch(name):
            raise Refused(f"{name!r} is no fold: state, last-by-key, concat or module:function")
        if (name == LAST_BY_KEY) != (key is not None):
            raise Refused("key, a JSON pointer, goes with the fold last-by-key, and with no other")
        if tombstone is not None and name != LAST_BY_KEY:
            raise Refused("tombstone goes with the fold last-by-key, and with no other")
        if content_type is not None and ":" not in name:
            raise Refused("content-type goes with a function, and with no other fold")
        if content_type is not None and not _MEDIA_TYPE.fullmatch(content_type):
            raise Refused(f"{content_type!r} is no media type")
        return cls(
            name,
            None if key is None else Pointer.parse(key),
            None if tombstone is None else Tombstone.parse(tombstone),
            content_type,
        )

    @property
    def is_keyed(self) -> bool:
        return self.name in (STATE, LAST_BY_KEY)

    @property
    def mark(self) -> str:
        """Stands at the end of the media type, so that no snapshot is taken for that of another
        fold: what it stands for is not there any more to be folded again."""
        given = {"key": self.key, "tombstone": self.tombstone}
        quoted = (f'; {name}="{_quoted(one.text)}"' for name, one in given.items() if one)
        name = f'"{self.name}"' if ":" in self.name else self.name
        return f"; fold={name}{''.join(quoted)}"

    def media_type(self, of_stream: str) -> str:
        """Of the snapshots of a stream of that type."""
        if self.is_keyed:
            return _JSON + self.mark
        if self.name == CONCAT:
            return of_stream.rstrip() + self.mark
        return (self.content_type or DEFAULT_CONTENT_TYPE) + self.mark

    def made(self, media_type: str) -> bool:
        """Whether a snapshot of this type is one of this fold."""
        return media_type.endswith(self.mark)


def _quoted(text: str) -> str:
    """A media type is ASCII, and a quote ends its parameters."""
    return quote(text, safe=_PLAIN)


def load(name: str) -> Function:
    """The user's function, wherever Python finds it or in the directory we run in."""
    module, _, attribute = name.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # A module can do anything while it is imported.
        raise Refused(f"the fold {name} cannot be loaded: {error}") from error
    if not callable(found):
        raise Refused(f"the fold {name} is no function")
    return cast(Function, found)
