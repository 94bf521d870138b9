"""How a compaction is divided, where its tiers are found, and what it says in the end."""

from pathlib import Path

import pytest

from spark.compact import Damage, Summary, _batches
from spark.deployment import Deployment
from spark.merging import cost, shares
from spark.options import Options
from spark.report import report
from spark.surface import path_of
from tiering.cold.keys import Piece
from tiering.cold.merge import Task
from tiering.errors import Refused


def task(size: int, parts: int = 2) -> Task:
    step = size // parts
    old = tuple(Piece("part", "s", 1, n * step, (n + 1) * step) for n in range(parts))
    return Task("text/plain", False, old, Piece("chunk", "s", 1, 0, parts * step))


def test_shares_hold_every_task_once_and_about_the_same_work() -> None:
    tasks = [task(1000 * n) for n in range(1, 41)]
    found = shares(tasks, 4)
    assert sorted(number for share in found for number, _ in share) == list(range(40))
    assert all(tasks[number] is one for share in found for number, one in share)
    loads = [sum(cost(one) for _, one in share) for share in found]
    assert max(loads) < 1.1 * min(loads)
    assert len(shares(tasks[:3], 4)) == 3
    assert shares([], 4) == []


def test_batches_keep_the_order_and_have_at_least_one_task() -> None:
    tasks = [task(1000 * n) for n in range(1, 11)]
    assert [len(batch) for batch in _batches(tasks, 1)] == [1] * 10
    assert list(_batches(tasks, 2**40)) == [tasks]
    divided = list(_batches(tasks, 3 * cost(tasks[-1])))
    assert [one for batch in divided for one in batch] == tasks
    assert len(divided) > 1


def test_tiers_are_where_options_variables_and_defaults_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data"
    with pytest.raises(Refused, match="no server has run on"):
        Deployment.parse({"data_dir": str(data)}, {})
    data.mkdir()
    (data / "redis.lock").write_text("17\n/somewhere/with space.sock\n")
    monkeypatch.chdir(tmp_path)
    found = Deployment.parse({}, {})
    assert found.redis == "unix:///somewhere/with%20space.sock"
    assert found.bucket.url == (data / "objects").as_uri()
    variables = {"DS_REDIS__URL": "redis://r", "DS_OBJECTS__URL": "s3://b/p"}
    assert Deployment.parse({}, variables).redis == "redis://r"
    assert Deployment.parse({}, variables).bucket.url == "s3://b/p"
    chosen = Deployment.parse({"redis": "redis://q", "endpoint": "http://e"}, variables)
    assert (chosen.redis, chosen.bucket.endpoint) == ("redis://q", "http://e")


def test_the_report_tells_what_was_lost_and_what_is_damaged() -> None:
    summary = Summary(
        streams=12, streams_compacted=2, parts_before=1000, parts_after=7, lost={"moved": 3}
    )
    summary.damaged = [Damage(f"s{n}", "gone") for n in range(25)]
    text = report(summary)
    assert "compacted 2 of 12 streams" in text
    assert "1,000" in text
    assert "  3: somebody else changed" in text
    assert "and 5 more" in text


def test_buckets_are_shown_and_the_registry_is_hidden_unless_it_is_named() -> None:
    def wants(stream: str, name: str) -> bool:
        return Options.parse({"url": "/x", "stream": stream}).selection.wants(name)

    assert wants("*", "__ds/box-a/s")
    assert wants("__ds/box-a/*", "__ds/box-a/s")
    assert not wants("__ds/box-a/*", "__ds/box-b/s")
    assert not wants("*", "__registry__")
    assert not wants("__*", "__registry__")
    assert wants("__registry__", "__registry__")


def test_the_tail_is_asked_for_where_the_stream_is() -> None:
    assert path_of("a/b c") == "/v1/stream/a/b%20c"
    assert path_of("__ds/box-a/ü") == "/ds/box-a/%C3%BC"
    assert path_of("__registry__") == "/v1/stream/__registry__"
