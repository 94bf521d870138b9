"""The keys and metadata that every object store takes unchanged."""

import re
from collections.abc import Mapping
from urllib.parse import quote, unquote

from tiering.errors import Invalid

LONGEST_KEY = 1024
MOST_METADATA_BYTES = 2048

_SEGMENT = r"[A-Za-z0-9!$&'()*+,;=:@._~%-]+"
_KEY = re.compile(rf"(?:(?!\.\.?(?:/|\Z)){_SEGMENT}/)*(?!\.\.?\Z){_SEGMENT}")
_METADATA_NAME = re.compile(r"[a-z0-9-]+")
_READABLE = " !\"#$&'()*+,/:;<=>?@[\\]^`{|}"
_LOST_SPACE = re.compile(r"\A | \Z|(?<= ) ")


def checked(key: str) -> str:
    """The key itself: a relative path of URL segments, none of them `.` or `..`."""
    if len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        raise Invalid(f"No object can be called {key[:80]!r}.")
    return key


def encoded(metadata: Mapping[str, str]) -> dict[str, str]:
    """As S3 takes them: ASCII, small, and without the spaces that HTTP drops."""
    ready = {_checked_name(name): _encoded_value(value) for name, value in metadata.items()}
    if sum(len(name) + len(value) for name, value in ready.items()) > MOST_METADATA_BYTES:
        raise Invalid(f"Metadata take more than {MOST_METADATA_BYTES} bytes.")
    return ready


def decoded(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name.lower(): unquote(value) for name, value in metadata.items()}


def _checked_name(name: str) -> str:
    if not _METADATA_NAME.fullmatch(name):
        raise Invalid(f"No metadata can be called {name!r}.")
    return name


def _encoded_value(value: str) -> str:
    if not value:  # SeaweedFS forgets it.
        raise Invalid("Metadata need a value.")
    return _LOST_SPACE.sub("%20", quote(value, safe=_READABLE))
