"""A crowd that reads a long history from its beginning to its end."""

import json
import os
import secrets

from locust import constant, events, task
from locust.env import Environment

from loadtest.scenarios.following import StreamUser

NAME = f"replay/{secrets.token_hex(8)}"
IN_A_BATCH = 256
BATCH = json.dumps([{"text": "x" * 1000}] * IN_A_BATCH)
MIB = int(os.environ.get("LOAD_MIB", "16"))
BATCHES = MIB * 2**20 // len(BATCH)
JSON = {"Content-Type": "application/json"}


class Reader(StreamUser):
    wait_time = constant(0.1)

    @task
    def replay(self) -> None:
        messages, offset, is_up_to_date = 0, "-1", False
        while not is_up_to_date:
            response = self.client.get(f"{self.root}/{NAME}?offset={offset}", name="read")
            response.raise_for_status()
            messages += response.content.count(b'"text"')
            offset = response.headers["Stream-Next-Offset"]
            is_up_to_date = "Stream-Up-To-Date" in response.headers
        if messages != IN_A_BATCH * BATCHES:
            self.missed("replay", f"{messages} messages of {IN_A_BATCH * BATCHES}")


@events.test_start.add_listener
def write_history(environment: Environment, **_: object) -> None:
    writer = Reader.beforehand(environment)
    path = writer.create(NAME)
    for _batch in range(BATCHES):
        writer.client.post(path, BATCH, headers=JSON, name="append a batch").raise_for_status()
