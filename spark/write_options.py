"""What a writer can be told, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark.surface import PATIENCE_SECS
from tiering.errors import Refused

APPEND_BYTES = 2**20
LARGEST_APPEND_BYTES = 16 * 2**20
LARGEST_EPOCH = 2**31 - 2
LONGEST_RETRY_SECS = 86_400

_KNOWN = {
    "server",
    "stream",
    "contenttype",
    "producer",
    "epoch",
    "appendbytes",
    "retrysecs",
}
_SPARKS_OWN = {"checkpointlocation", "queryname"}
_MEDIA = re.compile(r"[!-~]+/[!-~]+([ -~]*)")
_PRODUCER = re.compile(r"[!-~]{1,200}")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """`stream` is None when each row says its own; `content_type` when no stream is made."""

    server: str
    stream: str | None = None
    content_type: str | None = None
    producer: str | None = None
    epoch: int | None = None
    append_bytes: int = APPEND_BYTES
    retry_secs: int = PATIENCE_SECS

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "WriteOptions":
        """Names in any case, as Spark takes them; Refused for what nobody knows."""
        options = {name.lower(): value for name, value in given.items()}
        if unknown := sorted(options.keys() - _KNOWN - _SPARKS_OWN):
            raise Refused(f"durable_streams knows no option {unknown[0]!r} for writing")
        return cls(
            server=_server(options.get("server", "")),
            stream=options.get("stream"),
            content_type=_matched("contentType", _MEDIA, options.get("contenttype")),
            producer=_matched("producer", _PRODUCER, options.get("producer")),
            epoch=_number(options, "epoch", LARGEST_EPOCH),
            append_bytes=_given(options, "appendBytes", LARGEST_APPEND_BYTES, APPEND_BYTES),
            retry_secs=_given(options, "retrySecs", LONGEST_RETRY_SECS, PATIENCE_SECS),
        )


def _server(text: str) -> str:
    if not re.match("https?://.", text):
        raise Refused("the option server is missing: http://host:port")
    return text.rstrip("/")


def _matched(name: str, pattern: re.Pattern[str], text: str | None) -> str | None:
    if text is not None and not pattern.fullmatch(text):
        raise Refused(f"{name}={text!r} cannot be used")
    return text


def _number(options: Mapping[str, str], name: str, largest: int) -> int | None:
    text = options.get(name.lower())
    if text is None:
        return None
    if not re.fullmatch("[0-9]{1,12}", text) or int(text) > largest:
        raise Refused(f"{name}={text!r} is no whole number up to {largest}")
    return int(text)


def _given(options: Mapping[str, str], name: str, largest: int, default: int) -> int:
    number = _number(options, name, largest)
    return default if number is None else number
