"""Many writers, each to streams of his own."""

import secrets

from locust import between, task

from loadtest.scenarios.following import StreamUser

STREAMS = 5


class Writer(StreamUser):
    wait_time = between(0.01, 0.1)

    def on_start(self) -> None:
        names = (f"writers/{secrets.token_hex(8)}" for _ in range(STREAMS))
        self._paths = [self.create(name) for name in names]
        self._count = 0

    @task
    def write(self) -> None:
        self._count += 1
        message = {"n": self._count, "text": "x" * 64}
        self.append(self._paths[self._count % STREAMS], message)
