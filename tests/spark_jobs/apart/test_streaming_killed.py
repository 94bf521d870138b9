"""Queries that read streams and write files and streams are killed five times, in the midst of
their work: every message is in both sinks once."""

import itertools
import json
import os
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from support import streaming_driver as driver
from support.following import parquet_rows
from support.process_session import ProcessSession, python
from support.quick_spark import QUICK
from support.repairs import seal_all
from support.server import RunningServer, wait_until
from support.wire import Wire

KILLS = 5
COMPACTED = (2, 4)
START_SECS = 600
LONGEST_PAUSE_SECS = 2.0
HURRIED_APPENDS = 400
TESTS = Path(driver.__file__).parents[1]
SETTINGS = {"DS_TIERING__SEAL_AGE_SECS": "0.5", "DS_TIERING__SWEEP_SECS": "2"}
SPARKS_OWN = "java.io.OptionalDataException"
TYPES = {
    "source/json-1": "application/json",
    "source/json-2": "application/json",
    "source/text": "text/plain",
}


class Writer:
    """Appends until it is left, and knows what it has appended. It hurries for a while when it is
    told to: however slow the machine is, each driver finds some batches of work, not too many."""

    def __init__(self, server: RunningServer, chance: random.Random) -> None:
        self._wire = Wire(server.url)
        self._chance = chance
        self._is_over = threading.Event()
        self._in_a_hurry = 0
        self._thread = threading.Thread(target=self._write)
        self.messages: dict[str, list[bytes]] = {name: [] for name in TYPES}

    def __enter__(self) -> Self:
        for name, content_type in TYPES.items():
            assert self._wire.ask("PUT", name, content_type=content_type).status == 201
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()
        self._wire.close()

    def hurry(self) -> None:
        self._in_a_hurry = HURRIED_APPENDS

    def _write(self) -> None:
        for number in itertools.count():
            self._append(self._chance.choice(sorted(TYPES)), number)
            self._in_a_hurry -= 1
            if self._is_over.wait(0.02 if self._in_a_hurry > 0 else 0.5):
                return

    def _append(self, name: str, number: int) -> None:
        size = self._chance.randrange(1, 6)
        texts = [f"{name} {number} {index}" for index in range(size)]
        if TYPES[name] == "text/plain":
            batch = [" ".join(texts).encode()]
            body = batch[0]
        else:
            batch = [json.dumps({"text": text}).encode() for text in texts]
            body = b"[%b]" % b",".join(batch)
        assert self._wire.ask("POST", name, body, content_type=TYPES[name]).status == 204
        self.messages[name] += batch


class Driver:
    def __init__(self, server: RunningServer, folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._started = itertools.count()

    def start(self, mode: str) -> ProcessSession:
        place = [str(self._server.data_dir), self._server.url, str(self._folder)]
        return ProcessSession(
            *python("-m", driver.__name__, *place, mode),
            env=dict(os.environ) | QUICK | {"PYTHONPATH": str(TESTS)},
            log=self._folder / f"driver-{next(self._started)}.log",
        )

    def kill_one_at_work(self, mode: str, chance: random.Random) -> bool:
        """Not before it has ended a batch of both queries, and then at any moment. False for one
        that has fallen by itself: Spark serialises settings that another query is changing."""
        before = self.batches()
        with self.start(mode) as running:
            wait_until(
                lambda: _have_all_grown(before, self.batches()) or running.has_ended,
                START_SECS,
                "batches",
            )
            threading.Event().wait(chance.uniform(0, LONGEST_PAUSE_SECS))
            has_fallen = running.has_ended
            assert not has_fallen or running.said(SPARKS_OWN), running.log
            return not has_fallen

    def finish(self) -> None:
        with self.start("finish") as running:
            assert running.wait(START_SECS) == 0, running.log

    def batches(self) -> list[int]:
        """How many each query has ended so far."""
        folders = [self._folder / name / "commits" for name in (driver.FILES, driver.STREAM)]
        return [len([*folder.glob("[0-9]*")]) for folder in folders]


def _have_all_grown(before: list[int], now: list[int]) -> bool:
    return all(later > earlier for earlier, later in zip(before, now, strict=True))


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=16 * 1024, env=SETTINGS) as running:
        yield running


@pytest.mark.usefixtures("java")
@pytest.mark.timeout((KILLS + 1) * START_SECS)
def test_every_message_arrives_once_although_the_driver_is_killed_five_times(
    server: RunningServer, tmp_path: Path
) -> None:
    """Now and then pieces are replaced before the next one begins; its batches stay the same."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance, killed = random.Random(seed), Driver(server, tmp_path)
    with Writer(server, random.Random(seed)) as writer:
        deaths = 0
        while deaths < KILLS:
            writer.hurry()
            deaths += killed.kill_one_at_work("compact" if deaths in COMPACTED else "go", chance)
    seal_all(server)
    killed.finish()
    print(f"{sum(map(len, writer.messages.values()))} messages, batches {killed.batches()}")
    assert_in_files(tmp_path / "rows", writer.messages)
    assert_in_stream(server, writer.messages)


def assert_in_files(folder: Path, messages: dict[str, list[bytes]]) -> None:
    rows = sorted(parquet_rows(folder), key=lambda row: (row["stream"], row["position"]))
    assert len(rows) == sum(map(len, messages.values()))
    for name, written in messages.items():
        assert [row["payload"] for row in rows if row["stream"] == name] == written


def assert_in_stream(server: RunningServer, messages: dict[str, list[bytes]]) -> None:
    with Wire(server.url) as wire:
        copied = json.loads(wire.read_all_json(driver.COPY))
    written = [json.loads(one) for name, some in messages.items() if "json" in name for one in some]
    assert len(copied) == len(written)
    assert sorted(copied, key=json.dumps) == sorted(written, key=json.dumps)
