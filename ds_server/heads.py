"""Heads of requests, read quickly when nothing about them is unusual.

What is read here is read as the framework reads it; everything else is left to the framework.
"""

import re
from functools import lru_cache
from typing import NamedTuple

LONGEST_HEAD = 8000
_LONGEST_LINE = 1024
_LONGEST_REMEMBERED = 256
_MOST_FIELDS = 128
_END = b"\r\n\r\n"

_REQUEST_LINE = re.compile(rb"(GET|HEAD|POST|PUT|DELETE|OPTIONS) (/[!-~]*) HTTP/1\.1")
# No byte can belong to two parts of it: what does not match is found out at once.
_FIELD = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([ -~\t]*)")
_LENGTH = re.compile(r"[0-9]{1,15}")
# Each of them changes where the request ends, or what becomes of it or of its connection.
_UNUSUAL = frozenset(
    (
        "transfer-encoding",
        "upgrade",
        "expect",
        "trailer",
        "te",
        "proxy-connection",
        "sec-websocket-key1",
    )
)


class Head(NamedTuple):
    method: str
    target: str
    fields: dict[str, str]
    """By their names in small letters; none is there twice."""
    body_at: int
    end: int
    """Where the request ends, counted from its first byte."""

    def value(self, name: str) -> str | None:
        return self.fields.get(name.lower())


def read_head(data: bytes) -> Head | None:
    """None: not whole, or not of the usual kind."""
    body_at = data.find(_END, 0, LONGEST_HEAD) + len(_END)
    if body_at < len(_END):
        return None
    first, *lines = data[: body_at - len(_END)].split(b"\r\n")
    asked = _asked(first) if len(first) <= _LONGEST_LINE else None
    if asked is None or len(lines) > _MOST_FIELDS:
        return None
    fields: dict[str, str] = {}
    for line in lines:
        field = _field(line) if len(line) <= _LONGEST_REMEMBERED else _parse_field(line)
        if field is None:
            return None
        fields[field[0]] = field[1]
    length = fields.get("content-length", "0")
    if len(fields) < len(lines) or not _is_usual(fields) or not _LENGTH.fullmatch(length):
        return None
    return Head(*asked, fields, body_at, body_at + int(length))


def _is_usual(fields: dict[str, str]) -> bool:
    if "host" not in fields or not _UNUSUAL.isdisjoint(fields):
        return False
    return fields.get("connection", "keep-alive").lower() == "keep-alive"


@lru_cache(maxsize=4096)
def _asked(line: bytes) -> tuple[str, str] | None:
    match = _REQUEST_LINE.fullmatch(line)
    return (match[1].decode(), match[2].decode()) if match else None


def _parse_field(line: bytes) -> tuple[str, str] | None:
    match = _FIELD.fullmatch(line)
    return (match[1].decode().lower(), match[2].decode().strip(" \t")) if match else None


_field = lru_cache(maxsize=2048)(_parse_field)
