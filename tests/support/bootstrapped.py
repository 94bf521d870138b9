"""A bootstrap's answer taken apart, and the fold that snapshots are made with here."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

BOUNDARY = re.compile(r"multipart/mixed; boundary=([0-9a-f]{32})")
START = hashlib.sha256().digest()


def fold(messages: Iterable[bytes], state: bytes = START) -> bytes:
    """Tells one sequence of messages from every other one."""
    for message in messages:
        state = hashlib.sha256(state + hashlib.sha256(message).digest()).digest()
    return state


@dataclass(frozen=True, slots=True)
class Part:
    content_type: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Bootstrap:
    snapshot_offset: str
    next_offset: str
    snapshot: Part
    updates: list[Part]

    @property
    def messages(self) -> list[bytes]:
        return [part.body for part in self.updates]

    @property
    def state(self) -> bytes:
        """What a client has made of it."""
        return fold(self.messages, self.snapshot.body or START)


def parse(headers: Mapping[str, str], body: bytes) -> Bootstrap:
    assert headers["Stream-Up-To-Date"] == "true"
    assert headers["Cache-Control"] == "no-store"
    boundary = BOUNDARY.fullmatch(headers["Content-Type"])
    assert boundary is not None
    snapshot, *updates = _parts(body, boundary[1].encode())
    return Bootstrap(
        headers["Stream-Snapshot-Offset"], headers["Stream-Next-Offset"], snapshot, updates
    )


def _parts(body: bytes, boundary: bytes) -> list[Part]:
    nothing, *parts, end = (b"\r\n" + body).split(b"\r\n--" + boundary)
    assert (nothing, end) == (b"", b"--\r\n"), "the body was broken off"
    return [_part(text) for text in parts]


def _part(text: bytes) -> Part:
    head, between, content = text.partition(b"\r\n\r\n")
    name, _, content_type = head.removeprefix(b"\r\n").partition(b": ")
    assert (name, between) == (b"Content-Type", b"\r\n\r\n")
    return Part(content_type.decode(), content)
