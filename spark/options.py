"""What a reader can be told, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from pathlib import Path

from tiering.cold.catalog import Selection
from tiering.errors import Refused
from tiering.objects.open import Credentials, open_store
from tiering.objects.store import ObjectStore
from tiering.offset import NOW, ReadFrom, parse_read_from

PARTITION_BYTES = 128 * 2**20
"""As Spark has it for files."""

_KNOWN = {
    "url",
    "path",
    "endpoint",
    "region",
    "accesskeyid",
    "secretaccesskey",
    "sessiontoken",
    "stream",
    "from",
    "until",
    "since",
    "schema",
    "mode",
    "partitionbytes",
    "includetail",
    "server",
}
_WILD = re.compile(r"[*?\[]")
_SERVERS_OWN = "__registry__"


@dataclass(frozen=True, slots=True)
class Bucket:
    """Where the objects are, and who asks."""

    url: str
    endpoint: str | None = None
    region: str | None = None
    credentials: Credentials | None = None

    def open(self, *, read_only: bool = True) -> ObjectStore:
        return open_store(
            self.url,
            endpoint=self.endpoint,
            region=self.region,
            credentials=self.credentials,
            read_only=read_only,
        )


@dataclass(frozen=True, slots=True)
class Options:
    """`server` is None when the unsealed data are not asked for."""

    bucket: Bucket
    stream: str = "*"
    start: ReadFrom | None = None
    until: ReadFrom | None = None
    since_ms: int | None = None
    fails_fast: bool = False
    partition_bytes: int = PARTITION_BYTES
    server: str | None = None

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "Options":
        """Names in any case, as Spark takes them; Refused for what nobody knows."""
        options = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(options.keys() - _KNOWN):
            raise Refused(f"durable_streams knows no option {unknown[0]!r}")
        return cls(
            bucket=_bucket(options),
            stream=options.get("stream", "*"),
            start=_offset("from", options.get("from")),
            until=_offset("until", options.get("until")),
            since_ms=_time_ms(options.get("since")),
            fails_fast=_is_fail_fast(options.get("mode", "PERMISSIVE")),
            partition_bytes=_bytes(options.get("partitionbytes")),
            server=_server(options),
        )

    @property
    def selection(self) -> Selection:
        """`*` stands for any characters, `/` too. What the server keeps for itself is shown to
        those who name it; what is in buckets, `__ds/{bucket}/{stream}`, to everybody."""
        literal = _WILD.split(self.stream, maxsplit=1)[0]
        return Selection(literal, literal == self.stream, self._wants)

    def _wants(self, name: str) -> bool:
        is_asked_for = self.stream == _SERVERS_OWN or name != _SERVERS_OWN
        return is_asked_for and fnmatchcase(name, self.stream)


def _bucket(options: Mapping[str, str]) -> Bucket:
    url = options.get("url") or options.get("path")
    if not url:
        raise Refused("the option url is missing: s3://bucket/prefix, or a directory")
    if "://" not in url:
        url = Path(url).absolute().as_uri()
    return Bucket(url, options.get("endpoint"), options.get("region"), _credentials(options))


def _credentials(options: Mapping[str, str]) -> Credentials | None:
    key, secret = options.get("accesskeyid"), options.get("secretaccesskey")
    if key is None and secret is None:
        return None
    if key is None or secret is None:
        raise Refused("accessKeyId and secretAccessKey go together")
    return Credentials(key, secret, options.get("sessiontoken"))


def _offset(name: str, text: str | None) -> ReadFrom | None:
    if text is None:
        return None
    offset = parse_read_from(text)
    if offset is None or offset is NOW:
        raise Refused(f"{name}={text!r} is no offset of a stream")
    return offset


def _time_ms(text: str | None) -> int | None:
    """Without a zone it is UTC."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Refused(f"since={text!r} is no time: write 2026-01-31T12:00:00Z") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return -int(-moment.timestamp() * 1000 // 1)


def _is_fail_fast(mode: str) -> bool:
    if mode.upper() not in ("PERMISSIVE", "FAILFAST"):
        raise Refused(f"mode={mode!r} is neither PERMISSIVE nor FAILFAST")
    return mode.upper() == "FAILFAST"


def _bytes(text: str | None) -> int:
    if text is None:
        return PARTITION_BYTES
    if not re.fullmatch("[0-9]+", text) or not int(text):
        raise Refused(f"partitionBytes={text!r} is no number of bytes")
    return int(text)


def _server(options: Mapping[str, str]) -> str | None:
    wanted = options.get("includetail", "false").lower()
    if wanted not in ("true", "false"):
        raise Refused(f"includeTail={wanted!r} is neither true nor false")
    if wanted == "false":
        return None
    server = options.get("server", "")
    if not re.match("https?://.", server):
        raise Refused("includeTail needs the option server: http://host:port")
    return server.rstrip("/")
