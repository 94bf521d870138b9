"""Random histories of the State Protocol: a snapshot and its tail are the fold of everything, with
snapshots made of snapshots, and with nothing left of what they stand for."""

import json
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.bootstrapped import Bootstrap
from support.model import parse_token
from support.needs import need, need_npm_packages
from support.repairs import keys_in, objects_of, seal_all
from support.server import RunningServer, wait_until
from support.snapshots import JSON, Streams, line_of, run
from support.state_histories import Entry, History

from spark.snapshot_summary import Line, Summary
from tiering.cold.inventory import piece_of
from tiering.cold.keys import Piece
from tiering.stream import ContentType

pytestmark = pytest.mark.timeout(300)

HISTORIES = 50
ROUNDS = (2**20, 300_000, 2**26)
"""How much a task reads: in some of them streams are divided, in others put together."""
ENV = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
}
SCRIPT = Path(__file__).parents[1] / "support" / "materialise.mjs"


LINE = re.compile(rb'\{"type":.*?,"value":(.*),"headers":\{"operation":"insert"\}\}')


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer(chunk_bytes=1500, env=ENV) as running:
        yield running


@pytest.fixture
def streams(server: RunningServer) -> Iterator[Streams]:
    with Streams(server) as streams:
        yield streams


def entries(snapshot: bytes, offset: str) -> list[tuple[Entry, bytes]]:
    """In the order in which they stand there."""
    start, *changes, end = json.loads(snapshot)
    assert start == {"headers": {"control": "snapshot-start", "offset": offset}}
    assert end == {"headers": {"control": "snapshot-end", "offset": offset}}
    values = LINE.findall(snapshot)
    return [((one["type"], one["key"]), value) for one, value in zip(changes, values, strict=True)]


def append(streams: Streams, name: str, messages: list[bytes]) -> None:
    """As clients do: now one, now many."""
    while messages:
        count = random.choice([1, 2, 25])
        streams.append(name, *messages[:count])
        messages = messages[count:]


def in_vain(server: RunningServer, summary: Summary) -> list[str]:
    """What is left of history that a snapshot stands for, and of snapshots before that."""
    ends = {line.stream: parse_token(line.offset)[1] for line in summary.lines}
    found = [
        key
        for key in keys_in(server)
        if (piece := piece_in(server, key)) is not None and piece.end <= ends.get(piece.name, 0)
    ]
    snapshots = keys_in(server, "snapshots/")
    return found + snapshots[HISTORIES:]


def piece_in(server: RunningServer, key: str) -> Piece | None:
    try:
        return piece_of(key, (objects_of(server) / key).stat().st_size, ContentType(JSON))
    except FileNotFoundError:
        return None


def ask_the_official_package(questions: list[dict[str, object]]) -> list[object]:
    done = subprocess.run(
        [need("node"), SCRIPT],
        input="\n".join(map(json.dumps, questions)),
        cwd=need_npm_packages(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_snapshot_and_tail_are_the_fold_of_the_full_history(
    server: RunningServer, streams: Streams, spark: SparkSession
) -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    histories = {
        f"h{number}": History(random.Random(chance.random())) for number in range(HISTORIES)
    }
    for name in histories:
        streams.create(name)
    for partition_bytes in ROUNDS:
        for name, history in histories.items():
            append(streams, name, history.messages(chance.randrange(1, 60)))
        seal_all(server)
        for name, history in histories.items():
            append(streams, name, history.messages(chance.randrange(8), only_new=True))
        summary = run(server, spark, partition_bytes=partition_bytes)
        assert summary.published == HISTORIES, summary
        for name, history in histories.items():
            assert_exact(line_of(summary, name), streams.bootstrap(name), history)
        wait_until(lambda one=summary: not in_vain(server, one), what="the janitor")
    questions = [question(streams, name, one) for name, one in histories.items()]
    assert ask_the_official_package(questions) == [[]] * HISTORIES


def assert_exact(line: Line, found: Bootstrap, history: History) -> None:
    position = parse_token(found.snapshot_offset)[1]
    state = list(history.state(position).items())
    assert found.messages == history.after(position)
    assert entries(found.snapshot.body, line.offset) == state
    assert line.offset == found.snapshot_offset
    assert (line.keys, line.bytes_after) == (len(state), len(found.snapshot.body))


def question(streams: Streams, name: str, history: History) -> dict[str, object]:
    """Of the last tail, which the package understands: it does not know the older form."""
    found = streams.bootstrap(name)
    return {
        "snapshot": found.snapshot.body.decode(),
        "tail": [message.decode() for message in found.messages],
        "expected": [[*entry, value.decode()] for entry, value in history.state().items()],
    }
