"""A stream in a bucket as its clients know it: all its messages, some folded into a snapshot."""

from dataclasses import dataclass, field

from support.bootstrapped import Bootstrap, fold, parse
from support.model import parse_token, token
from support.wire import Answer, Wire

TEXT = "text/plain"
FOLDED = "application/vnd.test.fold"


@dataclass
class Shelf:
    """`name` is `bucket/stream`; the wire's root is `/ds/`."""

    wire: Wire
    name: str
    messages: list[bytes] = field(default_factory=list)

    @property
    def inner_name(self) -> str:
        """As Redis has it."""
        return f"__ds/{self.name}"

    @property
    def segment(self) -> str:
        """As object storage has it."""
        return self.inner_name.replace("/", "%2F")

    def create(self, **headers: str) -> "Shelf":
        bucket = self.name.partition("/")[0]
        assert self.wire.ask("PUT", bucket).status in (201, 409)
        answer = self.wire.ask("PUT", self.name, **{"content_type": TEXT} | headers)
        assert answer.status == 201, answer.body
        return self

    def fork(self, stream: str, count: int) -> "Shelf":
        """Of the first so many messages, in the same bucket."""
        bucket = self.name.partition("/")[0]
        made = Shelf(self.wire, f"{bucket}/{stream}", self.messages[:count])
        source = {"stream_forked_from": f"/ds/{self.name}", "stream_fork_offset": self.at(count)}
        return made.create(**source)

    def write(self, count: int, size: int = 100) -> "Shelf":
        for _ in range(count):
            message = (b"%05d " % len(self.messages) * size)[:size]
            assert self.wire.ask("POST", self.name, message, content_type=TEXT).status == 204
            self.messages.append(message)
        return self

    def position(self, count: int) -> int:
        return sum(map(len, self.messages[:count]))

    def at(self, count: int) -> str:
        """The offset after so many messages."""
        head = self.wire.ask("HEAD", self.name)
        return token(parse_token(head["Stream-Next-Offset"] or "")[0], self.position(count))

    def folded(self, count: int) -> bytes:
        return fold(self.messages[:count])

    def try_to_publish(self, count: int, body: bytes | None = None) -> Answer:
        content = self.folded(count) if body is None else body
        target = f"{self.name}/snapshot/{self.at(count)}"
        return self.wire.ask("PUT", target, content, content_type=FOLDED)

    def publish(self, count: int) -> "Shelf":
        answer = self.try_to_publish(count)
        assert answer.status == 204, answer.body
        return self

    def bootstrap(self) -> Bootstrap:
        answer = self.wire.ask("GET", f"{self.name}/bootstrap")
        assert answer.status == 200, answer.body
        return parse(dict(answer.headers), answer.body)

    def assert_whole(self, snapshot: int | None) -> None:
        """A client that bootstraps has every message, those before the snapshot folded."""
        found = self.bootstrap()
        assert found.messages == self.messages[snapshot or 0 :]
        assert found.state == fold(self.messages)
        if snapshot is None:
            assert found.snapshot_offset == "-1"
        else:
            assert parse_token(found.snapshot_offset)[1] == self.position(snapshot)
            assert found.snapshot.body == self.folded(snapshot)
            for behind in ("-1", self.at(snapshot - 1)):
                assert self.wire.ask("GET", self.name, offset=behind).status == 410

    def lose_the_end(self, count: int) -> None:
        """After a loss: only so many messages are left."""
        del self.messages[count:]
