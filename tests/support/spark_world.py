"""Random streams of every kind on a server, and what Spark must show of them."""

import json
import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from support.bootstrapped import parse
from support.model import parse_token, token
from support.wire import Answer, Wire

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"
BYTES = "application/octet-stream"
BUCKET = "the-bucket"
BUCKETED = f"__ds/{BUCKET}/"


Moments = tuple[int, int]
"""Before something and after it, in ms."""


@dataclass
class Known:
    """What was written to a stream, message by message, as its readers see it, and between which
    two moments each was appended. `start` is where what it retains begins."""

    content_type: str
    messages: list[bytes] = field(default_factory=list)
    moments: list[Moments] = field(default_factory=list)
    closed: bool = False
    start: int = 0

    @property
    def separator(self) -> int:
        return 1 if self.content_type == JSON else 0

    @property
    def stored(self) -> int:
        return self.end_of(self.messages)

    def end_of(self, messages: list[bytes]) -> int:
        """Where the first messages end, if they are these."""
        return self.start + sum(len(message) + self.separator for message in messages)


class World:
    """With `buckets`, a wire to `/ds/`, half of the streams are in a bucket."""

    def __init__(self, wire: Wire, seed: int, buckets: Wire | None = None) -> None:
        self.wire = wire
        self.buckets = buckets
        if buckets is not None:
            self._accepted(buckets.ask("PUT", BUCKET))
        self.random = random.Random(seed)
        self.streams: dict[str, Known] = {}
        self._count = 0

    def populate(self, count: int) -> None:
        """As many streams as that, some of them forks; some are deleted, closed or stay empty."""
        for _ in range(count):
            if self.streams and self.random.random() < 0.3:
                self.fork(self.random.choice(sorted(self.streams)))
            else:
                self.create(self.random.choice([JSON, JSON, TEXT, BYTES]))
        for name in self.random.sample(sorted(self.streams), count // 10):
            self.delete(name)
        for name in self.random.sample(sorted(self.streams), count // 10):
            self.close(name)

    def create(self, content_type: str, name: str = "") -> str:
        name = name or self._name()
        self._accepted(self.ask("PUT", name, content_type=content_type))
        self.streams[name] = Known(content_type)
        self.append_some(name)
        return name

    def fork(self, source: str) -> str:
        """At any message; in the middle of an append, if the stream counts bytes."""
        name, known = self._name(), self.streams[source]
        kept = known.messages[: self.random.randrange(len(known.messages) + 1)]
        moments = known.moments[: len(kept)]
        fork = Known(known.content_type, list(kept), moments, start=known.start)
        place = {"stream_fork_offset": token(self.log(source), fork.stored)}
        following = known.messages[len(kept) :]
        if following and known.content_type != JSON and self.random.random() < 0.5:
            first = following[0]
            inside = self.random.randrange(1, len(first)) if len(first) > 1 else 0
            if inside:
                place["stream_fork_sub_offset"] = str(inside)
                fork.messages.append(first[:inside])
                fork.moments.append(known.moments[len(kept)])
        wire, path = self._way(source)
        self._accepted(self.ask("PUT", name, stream_forked_from=f"{wire.root}{path}", **place))
        self.streams[name] = fork
        self.append_some(name)
        return name

    def append_some(self, name: str) -> None:
        for _ in range(self.random.randrange(8)):
            self.append(name)

    def append(self, name: str) -> None:
        known = self.streams[name]
        if known.content_type == JSON:
            batch = [self._value() for _ in range(self.random.choice([1, 1, 2, 7]))]
            body = b"[%b]" % b", ".join(batch)
        else:
            batch = [self.random.randbytes(self.random.randrange(1, 120))]
            body = batch[0]
        before = _now_ms()
        self._accepted(self.ask("POST", name, body, content_type=known.content_type))
        known.messages += batch
        known.moments += [(before, _now_ms())] * len(batch)

    def grow(self) -> None:
        """Every stream that still can."""
        for name, known in self.streams.items():
            if not known.closed:
                self.append_some(name)

    def forget_what_was_lost(self) -> None:
        """After a recovery: what lay beyond the end that each stream has now."""
        for name, known in self.streams.items():
            tail = self.ask("HEAD", name)["Stream-Next-Offset"] or ""
            while known.stored > parse_token(tail)[1]:
                known.messages.pop()
                known.moments.pop()

    def publish_some(self) -> None:
        """Snapshots: what lies before them is not retained."""
        bucketed = sorted(name for name in self.streams if name.startswith(BUCKETED))
        for name in self.random.sample(bucketed, len(bucketed) // 3):
            known = self.streams[name]
            gone = known.messages[: self.random.randrange(len(known.messages) + 1)]
            position = known.end_of(gone)
            snapshot = f"{name}/snapshot/{token(self.log(name), position)}"
            self._accepted(self.ask("PUT", snapshot, b"%d" % len(gone), content_type=TEXT))
            known.messages, known.start = known.messages[len(gone) :], position
            known.moments = known.moments[len(gone) :]

    def close(self, name: str) -> None:
        self._accepted(self.ask("POST", name, stream_closed="true"))
        self.streams[name].closed = True

    def delete(self, name: str) -> None:
        self._accepted(self.ask("DELETE", name))
        del self.streams[name]

    def log(self, name: str) -> int:
        return parse_token(self.ask("HEAD", name)["Stream-Next-Offset"] or "")[0]

    def rows(self, names: Iterable[str] | None = None) -> list[dict[str, Any]]:
        """What Spark must show, in order."""
        chosen = sorted(self.streams if names is None else names)
        return [row for name in chosen for row in self._rows(name)]

    def moments(self) -> list[Moments]:
        """Of the rows that Spark must show, in order."""
        return [between for name in sorted(self.streams) for between in self.streams[name].moments]

    def assert_told_by_http(self) -> None:
        """The server says the same as we: else a comparison with Spark would mean little."""
        for name, known in self.streams.items():
            wire, path = self._way(name)
            start = token(self.log(name), known.start) if known.start else "-1"
            if name.startswith(BUCKETED):
                answer = wire.ask("GET", f"{path}/bootstrap")
                assert parse(answer.headers, answer.body).messages == known.messages  # type: ignore[arg-type]
            elif known.content_type == JSON:
                assert wire.read_all_json(path, start) == b"[%b]" % b",".join(known.messages)
            else:
                assert wire.read_all(path, start) == b"".join(known.messages)
            tail = self.ask("HEAD", name)["Stream-Next-Offset"]
            assert tail == token(self.log(name), known.stored)

    def hang_up(self) -> None:
        """Before something that may take longer than the server keeps connections for."""
        self.wire.close()
        if self.buckets is not None:
            self.buckets.close()

    def ask(self, method: str, name: str, body: bytes | None = None, **headers: str) -> Answer:
        wire, path = self._way(name)
        return wire.ask(method, path, body, **headers)

    def _way(self, name: str) -> tuple[Wire, str]:
        """Which surface a stream is asked for at, and where there."""
        if self.buckets is None or not name.startswith(BUCKETED):
            return self.wire, quote(name)
        return self.buckets, f"{BUCKET}/{quote(name.removeprefix(BUCKETED))}"

    def _rows(self, name: str) -> Iterable[dict[str, Any]]:
        known, log, position = self.streams[name], self.log(name), self.streams[name].start
        for message in known.messages:
            end = position + len(message) + known.separator
            yield {
                "stream": name,
                "offset": token(log, position),
                "next_offset": token(log, end),
                "position": position,
                "content_type": known.content_type,
                "payload": message,
            }
            position = end

    def _value(self) -> bytes:
        """As clients write it: nothing of it may change on the way."""
        value = self.random.choice(
            [
                {"n": self.random.randrange(10**6), "s": "é" * self.random.randrange(20)},
                {"n": None, "more": {"deep": [1, {"x": "]},"}]}},
                [1, [2]],
                "text, with ] and }",
                None,
                self.random.random(),
            ]
        )
        text = json.dumps(value, indent=self.random.choice([None, 1]), ensure_ascii=False)
        return text.encode()

    def _name(self) -> str:
        self._count += 1
        if self.buckets is not None and self.random.random() < 0.5:
            strange = self.random.choice(["", "b c ", "ü%", "[x]*"])
            return f"{BUCKETED}{strange}s{self._count}"
        folder = self.random.choice(["", "a/", "a/b c/", "ü%/", "[x]*/"])
        return f"{folder}s{self._count}" if self.random.random() < 0.5 else f"s{self._count}"

    def _accepted(self, answer: Answer) -> None:
        assert answer.status in (200, 201, 204), answer.body


def _now_ms() -> int:
    """By the clock that Redis has too."""
    return time.time_ns() // 1_000_000
