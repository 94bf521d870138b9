"""The job of `ds-spark snapshot` on the Spark of the tests, and streams to try it on."""

import json
from collections.abc import Sequence
from typing import Any, Self

from pyspark.sql import SparkSession
from support.bootstrapped import Bootstrap, parse
from support.server import RunningServer
from support.wire import Answer, Wire

from spark.deployment import bucket_of
from spark.due import Wanted
from spark.folds import Fold
from spark.rules import Rule
from spark.snapshot import snapshot
from spark.snapshot_summary import Line, Summary

BUCKET = "the-bucket"
JSON = "application/json"
LIMIT = 100_000
ENV = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
    "DS_LIMITS__MAX_SNAPSHOT_BYTES": str(LIMIT),
}


def change(key: str, value: object, operation: str = "upsert") -> bytes:
    message = {"type": "t", "key": key, "value": value, "headers": {"operation": operation}}
    return json.dumps(message).encode()


def rule(fold: str = "state", stream: str = "*", max_bad: int = 0, **more: str) -> Rule:
    return Rule("*", stream, Fold.parse(fold, **more), max_bad)


def run(
    server: RunningServer,
    spark: SparkSession | None,
    rules: Sequence[Rule] = (rule(),),
    stream: str = "*",
    **more: Any,
) -> Summary:
    """Without a Spark nothing may be due."""

    def session() -> SparkSession:
        assert spark is not None, "Spark was started"
        return spark

    bucket = bucket_of({"data_dir": str(server.data_dir)}, {})
    wanted = Wanted(rules, BUCKET, stream)
    return snapshot(bucket, more.pop("url", server.url), wanted, session, **more)


def line_of(summary: Summary, stream: str) -> Line:
    return next(line for line in summary.lines if line.stream == f"__ds/{BUCKET}/{stream}")


class Streams:
    """Of one bucket. What was appended to each is remembered."""

    def __init__(self, server: RunningServer) -> None:
        self.wire = Wire(server.url, root="/ds/")
        self.written: dict[str, list[bytes]] = {}
        self.types: dict[str, str] = {}
        assert self.wire.ask("PUT", BUCKET).status == 201

    def create(self, name: str, content_type: str = JSON) -> None:
        assert self.ask("PUT", name, content_type=content_type).status == 201
        self.written[name], self.types[name] = [], content_type

    def append(self, name: str, *messages: bytes) -> None:
        is_json = self.types[name] == JSON
        for body in [b"[%b]" % b",".join(messages)] if is_json else messages:
            answer = self.ask("POST", name, body, content_type=self.types[name])
            assert answer.status in (200, 204), answer.body
        self.written[name] += messages

    def bootstrap(self, name: str) -> Bootstrap:
        answer = self.ask("GET", f"{name}/bootstrap")
        return parse(dict(answer.headers.items()), answer.body)

    def snapshot(self, name: str) -> Answer:
        """The one in force."""
        answer = self.ask("GET", f"{name}/snapshot")
        assert answer.status == 307, answer.body
        place = (answer["Location"] or "").rpartition("/")[2]
        return self.ask("GET", f"{name}/snapshot/{place}")

    def body(self, name: str) -> bytes:
        return self.snapshot(name).body

    def ask(self, method: str, name: str, body: bytes | None = None, **headers: str) -> Answer:
        return self.wire.ask(method, f"{BUCKET}/{name}", body, **headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.wire.close()
