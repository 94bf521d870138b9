"""AI token streaming: each user is a chat, an answer of which two clients follow live."""

import secrets

import gevent
from locust import constant, constant_throughput, task

from loadtest.scenarios.following import StreamUser

TOKENS = 300
TOKENS_PER_SECOND = 30


class Chat(StreamUser):
    """One answer after the other, each a stream of its own."""

    wait_time = constant(0.5)

    @task
    def answer(self) -> None:
        path = self.create(f"chat/{secrets.token_hex(8)}")
        followers = [
            gevent.spawn(self._follow, "SSE", path),
            gevent.spawn(self._follow, "long-poll", path),
        ]
        try:
            self._generate(path)
            gevent.joinall(followers)
        finally:
            gevent.killall(followers)

    def _generate(self, path: str) -> None:
        pace = constant_throughput(TOKENS_PER_SECOND)
        for number in range(TOKENS):
            self.append(path, {"n": number, "token": "word "})
            gevent.sleep(pace(self))
        self.close(path)

    def _follow(self, kind: str, path: str) -> None:
        follow = self.follow_by_sse if kind == "SSE" else self.follow_by_long_poll
        due = 0
        for message in follow(path):
            if message["n"] != due:
                self.missed(kind, f"got token {message['n']} when {due} was due")
            due = message["n"] + 1
            self.delivered(kind, message)
        if due != TOKENS:
            self.missed(kind, f"got {due} tokens of {TOKENS}")
