"""What a bucket must know of a stream besides its data, to give it back alone."""

import msgspec

from tiering.errors import Corrupt
from tiering.stream import Ancestor

VERSION = 1


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    version: int
    name: str
    log: int
    content_type: str
    grid: int
    created_ms: int
    tail: int
    sealed: int
    ancestors: tuple[Ancestor, ...] = ()
    ttl_secs: int | None = None
    expires_ms: int | None = None
    expires_text: str = ""
    closed: bool = False
    closed_by: str = ""
    earliest: int = 0
    deleted: bool = False

    @property
    def mark(self) -> str:
        """Changes with everything in here that can change."""
        return f"{self.tail}:{self.sealed}:{self.closed:d}:{self.earliest}"

    def encode(self) -> bytes:
        return msgspec.json.format(msgspec.json.encode(self), indent=1)


class _Version(msgspec.Struct):
    version: int


def decode(data: bytes, key: str) -> Manifest:
    try:
        version = msgspec.json.decode(data, type=_Version).version
        if version != VERSION:
            raise Corrupt(f"{key} has format version {version}; this server knows {VERSION}.")
        return msgspec.json.decode(data, type=Manifest)
    except msgspec.DecodeError as error:
        raise Corrupt(f"{key} is not a manifest: {error}.") from error


def tombstone(manifest: Manifest) -> Manifest:
    """Says that the stream was deleted and must not come back."""
    return msgspec.structs.replace(manifest, deleted=True)
