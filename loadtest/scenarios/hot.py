"""One stream that everybody follows."""

import itertools
import secrets
from collections.abc import Iterator

from locust import constant, constant_throughput, events, task
from locust.env import Environment

from loadtest.scenarios.following import Message, StreamUser

MESSAGES_PER_SECOND = 10
NAME = f"hot/{secrets.token_hex(8)}"


class Writer(StreamUser):
    """There is one."""

    fixed_count = 1
    wait_time = constant_throughput(MESSAGES_PER_SECOND)

    def on_start(self) -> None:
        self._path = f"{self.root}/{NAME}"
        self._numbers = itertools.count()

    @task
    def write(self) -> None:
        self.append(self._path, {"n": next(self._numbers)})


class Follower(StreamUser):
    """Wants every message from his arrival on, once, in order."""

    abstract = True
    kind = ""
    wait_time = constant(1)

    @task
    def follow(self) -> None:
        due = None
        for message in self._messages(f"{self.root}/{NAME}"):
            if due is not None and message["n"] != due:
                self.missed(self.kind, f"got message {message['n']} when {due} was due")
            due = message["n"] + 1
            self.delivered(self.kind, message)

    def _messages(self, path: str) -> Iterator[Message]:
        raise NotImplementedError


class SseFollower(Follower):
    kind = "SSE"
    weight = 9

    def _messages(self, path: str) -> Iterator[Message]:
        return self.follow_by_sse(path, "now")


class LongPollFollower(Follower):
    kind = "long-poll"
    weight = 1

    def _messages(self, path: str) -> Iterator[Message]:
        return self.follow_by_long_poll(path, "now")


@events.test_start.add_listener
def make_stream(environment: Environment, **_: object) -> None:
    """Before anyone comes to follow it."""
    Writer.beforehand(environment).create(NAME)
