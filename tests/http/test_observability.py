"""What an operator sees: metrics that are true for all workers, and a log of requests."""

import json
import os
import re
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.client import JSON, TEXT, unique_name
from support.raw import Answer, Raw, head, whole
from support.server import RunningServer, wait_until

AS_TEXT = f"Content-Type: {TEXT}"
AS_JSON = f"Content-Type: {JSON}"
HISTOGRAMS = ["ds_append_seconds", "ds_delivery_seconds"]
HISTOGRAMS += ["ds_event_loop_lag_seconds", "ds_event_loop_held_seconds"]
COUNTERS = ["ds_appends", "ds_appended_bytes", "ds_reads", "ds_redis_round_trips", "ds_errors"]
COUNTERS += ["ds_object_requests"]
GAUGES = ["ds_live_followers", "ds_hot_bytes"]


class Metrics:
    """One scrape."""

    def __init__(self, text: str) -> None:
        self.families = {family.name: family for family in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        """0 for what was never counted."""
        return self._values.get((name, tuple(sorted(labels.items()))), 0.0)

    def total(self, name: str) -> float:
        return sum(value for (known, _), value in self._values.items() if known == name)

    @property
    def followers(self) -> tuple[int, int]:
        modes = ("sse", "long_poll")
        sse, long_poll = (int(self("ds_live_followers", mode=mode)) for mode in modes)
        return sse, long_poll


def ask(server: RunningServer, data: bytes, method: str = "GET") -> Answer:
    with Raw(server.url) as raw:
        return raw.ask(data, method)


def scrape(server: RunningServer) -> Metrics:
    return Metrics(ask(server, head("GET", "/metrics")).body.decode())


def worker_of(answer: Answer) -> str:
    """Each worker begins the ids it gives with a word of its own."""
    assert answer["X-Request-Id"] is not None
    return answer["X-Request-Id"].split("-")[0]


def scrape_every_worker(server: RunningServer) -> list[Metrics]:
    scrapes: dict[str, Metrics] = {}

    def all_were_asked() -> bool:
        answer = ask(server, head("GET", "/metrics"))
        scrapes[worker_of(answer)] = Metrics(answer.body.decode())
        return len(scrapes) == 2

    wait_until(all_were_asked, what="both workers to be asked")
    return list(scrapes.values())


@contextmanager
def connection_to_every_worker(server: RunningServer) -> Iterator[list[Raw]]:
    with ExitStack() as stack:
        found: dict[str, Raw] = {}

        def all_were_found() -> bool:
            raw = stack.enter_context(Raw(server.url))
            found.setdefault(worker_of(raw.ask(head("GET", "/healthz"))), raw)
            return len(found) == 2

        wait_until(all_were_found, what="connections to both workers")
        yield list(found.values())


def new_stream(server: RunningServer, *fields: str) -> str:
    target = f"/v1/stream/{unique_name('seen')}"
    assert ask(server, whole("PUT", target, AS_TEXT, *fields, body=b"")).status == 201
    return target


def append(target: str, body: bytes = b"x", *fields: str) -> bytes:
    return whole("POST", target, AS_TEXT, *fields, body=body)


def wait_for_appends(server: RunningServer, count: int) -> None:
    """Until they are in the counter and in the histogram; workers hand them over now and then."""

    def are_counted() -> bool:
        now = scrape(server)
        return min(now("ds_appends_total"), now("ds_append_seconds_count")) >= count

    wait_until(are_counted, what=f"{count} appends to be counted")


def produce(target: str, body: bytes, seq: int) -> bytes:
    producer = ["Producer-Id: p", "Producer-Epoch: 0", f"Producer-Seq: {seq}"]
    return append(target, body, *producer)


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer(workers=2, long_poll_timeout_secs=60) as running:
        yield running


@pytest.fixture(scope="module")
def talkative_server() -> Iterator[RunningServer]:
    """One worker, which tells people of every request."""
    with RunningServer(workers=1, env={"DS_LOG__ACCESS": "true"}) as running:
        yield running


# Metrics


def test_everything_is_there_from_the_start(server: RunningServer) -> None:
    answer = ask(server, head("GET", "/metrics"))
    assert answer.status == 200
    assert (answer["Content-Type"] or "").startswith("text/plain; version=")
    assert answer["Cache-Control"] == "no-store"
    families = Metrics(answer.body.decode()).families
    kinds = {name: family.type for name, family in families.items()}
    assert {kinds.get(name) for name in HISTOGRAMS} == {"histogram"}
    assert {kinds.get(name) for name in COUNTERS if name != "ds_errors"} == {"counter"}
    assert {kinds.get(name) for name in GAUGES} == {"gauge"}
    assert all(family.documentation for family in families.values())


def test_appends_add_up_whichever_worker_is_asked(server: RunningServer) -> None:
    target = new_stream(server)
    before = scrape(server)
    with connection_to_every_worker(server) as connections:
        for raw in connections * 10:
            assert raw.ask(append(target, b"12345")).status == 204
    wait_for_appends(server, int(before("ds_appends_total")) + 20)
    for after in scrape_every_worker(server):
        assert after("ds_appends_total") - before("ds_appends_total") == 20
        assert after("ds_appended_bytes_total") - before("ds_appended_bytes_total") == 100
        count = after("ds_append_seconds_count") - before("ds_append_seconds_count")
        assert count == 20
        assert after("ds_append_seconds_bucket", le="+Inf") == after("ds_append_seconds_count")
        assert after("ds_append_seconds_sum") > before("ds_append_seconds_sum")
        trips = after("ds_redis_round_trips_total") - before("ds_redis_round_trips_total")
        assert trips >= 20
        assert after("ds_hot_bytes") > 0


def test_what_was_not_appended_is_not_counted_as_bytes(server: RunningServer) -> None:
    target = new_stream(server)
    before = scrape(server)
    assert ask(server, produce(target, b"12345", 0)).status == 200
    assert ask(server, produce(target, b"12345", 0)).status == 204
    assert ask(server, append(target, b"1234567", "Producer-Id: p")).status == 400
    assert ask(server, whole("POST", target, "Stream-Closed: true", body=b"")).status == 204
    assert ask(server, append(target, b"1234567")).status == 409
    marker = new_stream(server)
    with connection_to_every_worker(server) as connections:
        for raw in connections:
            assert raw.ask(append(marker, b"1")).status == 204

    def grown() -> float:
        return scrape(server)("ds_appended_bytes_total") - before("ds_appended_bytes_total")

    wait_until(lambda: grown() >= 7, what="the markers to be counted")
    assert grown() == 7


def test_reads_are_counted_by_kind(server: RunningServer) -> None:
    target = new_stream(server)
    ask(server, append(target))
    before = scrape(server)
    read = ask(server, head("GET", target))
    assert read.status == 200
    again = ask(server, head("GET", target, f"If-None-Match: {read['ETag']}"))
    assert again.status == 304
    assert ask(server, head("HEAD", target), "HEAD").status == 200
    assert ask(server, head("GET", f"{target}?offset=-1&live=long-poll")).status == 200
    closed = new_stream(server, "Stream-Closed: true")
    assert ask(server, head("GET", f"{closed}?offset=-1&live=long-poll")).status == 204
    with Raw(server.url) as raw:
        raw.send(head("GET", f"{target}?offset=now&live=sse"))
        assert raw.beginning().status == 200
    for after in scrape_every_worker(server):
        for kind in ["tail", "not_modified", "head", "long_poll", "long_poll_empty", "sse"]:
            grown = after("ds_reads_total", kind=kind) - before("ds_reads_total", kind=kind)
            assert grown == 1, kind


def test_errors_are_counted_by_kind(server: RunningServer) -> None:
    """A kind appears with its first error."""
    target = new_stream(server)
    before = scrape(server)
    assert ask(server, head("GET", f"{target}?offset=banana")).status == 400
    assert ask(server, head("GET", f"{target}-none")).status == 404
    assert ask(server, head("GET", f"{target}-none")).status == 404
    assert ask(server, whole("PUT", target, AS_JSON, body=b"")).status == 409
    assert ask(server, whole("PATCH", target, body=b"")).status == 405
    assert ask(server, b"garbage\r\n\r\n").status == 400
    expected = {
        "Invalid": 1,
        "NotFound": 2,
        "Conflict": 1,
        "HTTPMethodNotAllowed": 1,
        "malformed": 1,
    }
    for after in scrape_every_worker(server):
        for kind, count in expected.items():
            grown = after("ds_errors_total", kind=kind) - before("ds_errors_total", kind=kind)
            assert grown == count, kind
        assert after.total("ds_errors_total") - before.total("ds_errors_total") == 6


def test_the_lag_of_the_event_loop_is_measured_all_the_time(server: RunningServer) -> None:
    name = "ds_event_loop_lag_seconds_count"
    before = scrape(server)(name)
    wait_until(lambda: scrape(server)(name) >= before + 4, what="some more measurements")


def test_every_delivery_to_a_follower_is_timed(server: RunningServer) -> None:
    """Finer than a millisecond, which is what a delivery takes."""
    target = new_stream(server)
    before = scrape(server)("ds_delivery_seconds_count")
    with ExitStack() as stack:
        for _ in range(4):
            raw = stack.enter_context(Raw(server.url))
            raw.send(head("GET", f"{target}?offset=now&live=sse"))
            assert raw.beginning().status == 200
        wait_until(lambda: scrape(server).followers[0] >= 4, what="the followers")
        for _ in range(5):
            assert ask(server, append(target)).status == 204
        wait_until(lambda: scrape(server)("ds_delivery_seconds_count") > before)
    millis = scrape(server)("ds_delivery_seconds_sum") * 1000
    assert millis > 0
    assert abs(millis - round(millis)) > 1e-6


def test_followers_are_counted_while_they_wait(server: RunningServer) -> None:
    wait_until(lambda: scrape(server).followers == (0, 0), what="earlier followers to be gone")
    target = new_stream(server)
    with ExitStack() as stack:
        for mode in ["sse"] * 5 + ["long-poll"] * 3:
            raw = stack.enter_context(Raw(server.url))
            raw.send(head("GET", f"{target}?offset=now&live={mode}"))
        wait_until(lambda: scrape(server).followers == (5, 3), what="the followers")
        assert {scraped.followers for scraped in scrape_every_worker(server)} == {(5, 3)}
        assert ask(server, append(target)).status == 204
        wait_until(lambda: scrape(server).followers == (5, 0), what="the answers")
    wait_until(lambda: scrape(server).followers == (0, 0), what="the followers to be gone")
    assert {scraped.followers for scraped in scrape_every_worker(server)} == {(0, 0)}


def test_the_counts_of_a_killed_worker_stay_and_its_followers_go() -> None:
    with RunningServer(workers=2) as server, connection_to_every_worker(server) as connections:
        target = new_stream(server)
        for raw in connections * 10:
            assert raw.ask(append(target)).status == 204
        for raw in connections:
            raw.send(head("GET", f"{target}?offset=now&live=sse"))
            assert raw.beginning().status == 200
        wait_until(lambda: scrape(server).followers == (2, 0), what="the followers")
        wait_for_appends(server, 20)
        before = scrape(server)
        kill_a_worker(server)
        wait_until(lambda: scrape(server).followers == (1, 0), what="the dead one's follower to go")
        for after in scrape_every_worker(server):
            assert after("ds_appends_total") == 20
            assert after("ds_append_seconds_count") == 20
            for name in COUNTERS:
                assert after.total(f"{name}_total") >= before.total(f"{name}_total")
        for raw in connections:
            raw.close()
        wait_until(lambda: scrape(server).followers == (0, 0), what="the last follower to go")


def kill_a_worker(server: RunningServer, how: signal.Signals = signal.SIGKILL) -> None:
    """Returns when its successor is there."""
    workers = server.worker_pids()
    os.kill(workers[0], how)

    def is_replaced() -> bool:
        now = server.worker_pids()
        return len(now) == len(workers) and workers[0] not in now

    wait_until(is_replaced, what=f"a successor of {workers[0]}")


def test_a_worker_that_ends_in_order_hands_over_what_it_has_counted(
    talkative_server: RunningServer,
) -> None:
    target = new_stream(talkative_server)
    before = scrape(talkative_server)("ds_appends_total")
    for _ in range(20):
        assert ask(talkative_server, append(target)).status == 204
    kill_a_worker(talkative_server, signal.SIGTERM)
    assert scrape(talkative_server)("ds_appends_total") == before + 20


# Ids


@pytest.mark.parametrize(
    ("request_line", "method"),
    [
        ("GET {target}", "GET"),
        ("HEAD {target}", "HEAD"),
        ("OPTIONS {target}", "OPTIONS"),
        ("DELETE {target}-none", "DELETE"),
        ("GET {target}?offset=banana", "GET"),
        ("PATCH {target}", "PATCH"),
        ("GET /nowhere", "GET"),
        ("GET /metrics", "GET"),
        ("GET /healthz", "GET"),
    ],
)
def test_the_id_that_a_client_brings_is_in_the_answer(
    server: RunningServer, request_line: str, method: str
) -> None:
    request_line = request_line.format(target=new_stream(server))
    request = head(*request_line.split(" "), "X-Request-Id: 0af7651916cd43dd8448eb211c80319c:7")
    assert ask(server, request, method)["X-Request-Id"] == "0af7651916cd43dd8448eb211c80319c:7"


def test_a_follower_gets_the_id_that_it_brought(server: RunningServer) -> None:
    target = new_stream(server)
    with Raw(server.url) as raw:
        raw.send(head("GET", f"{target}?offset=now&live=sse", "X-Request-Id: follower-7"))
        assert raw.beginning()["X-Request-Id"] == "follower-7"


@pytest.mark.parametrize("odd", [b"", b"a b", b"a\tb", b'a"b', b"a\xffb", b"\xc3\xa9", b"a" * 129])
def test_an_id_that_does_not_belong_into_a_log_is_replaced(
    server: RunningServer, odd: bytes
) -> None:
    answer = ask(server, head("GET", "/healthz", b"X-Request-Id: " + odd))
    assert re.fullmatch(r"[0-9a-f]+-[0-9a-f]+", answer["X-Request-Id"] or "")


def test_no_two_requests_get_the_same_id(server: RunningServer) -> None:
    with connection_to_every_worker(server) as connections:
        answers = [raw.ask(head("GET", "/healthz")) for raw in connections * 50]
    assert len({answer["X-Request-Id"] for answer in answers}) == 100
    assert len({worker_of(answer) for answer in answers}) == 2


# The access log


@pytest.fixture(scope="module")
def logging_server() -> Iterator[RunningServer]:
    env = {"DS_LOG__ACCESS": "true", "DS_LOG__FORMAT": "json"}
    with RunningServer(workers=2, env=env) as running:
        address = re.search(r"listening on http://localhost:([0-9]+)", running.log())
        assert address is not None
        running.port = int(address[1])
        yield running


def logged(server: RunningServer, answer: Answer) -> dict[str, Any]:
    """The one line about a request, found by the id in its answer."""

    def line() -> dict[str, Any] | None:
        records = [json.loads(line) for line in server.log().splitlines()]
        mine = [one for one in records if one.get("request_id") == answer["X-Request-Id"]]
        assert len(mine) <= 1
        return mine[0] if mine else None

    return wait_until(line, what=f"{answer['X-Request-Id']} to be logged")


def test_requests_are_not_logged_unless_asked_for(server: RunningServer) -> None:
    """A connection's next request is looked at when the one before is done with."""
    with Raw(server.url) as raw:
        answers = [raw.ask(head("GET", target)) for target in ["/healthz", "/nowhere", "/healthz"]]
    assert "ds_server.access" not in server.log()
    assert not any(str(answer["X-Request-Id"]) in server.log() for answer in answers)


def test_a_request_is_one_line_of_json(logging_server: RunningServer) -> None:
    target = new_stream(logging_server)
    answer = ask(logging_server, head("GET", f"{target}?offset=-1"))
    line = logged(logging_server, answer)
    assert line["logger"] == "ds_server.access"
    assert line["level"] == "info"
    assert line["method"] == "GET"
    assert line["path"] == f"{target}?offset=-1"
    assert line["status"] == 200
    assert line["remote"] == "127.0.0.1"
    assert line["ms"] >= 0
    assert line["bytes"] >= 0
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert line["pid"] in logging_server.worker_pids()


def test_the_id_that_a_client_brings_is_in_the_log(logging_server: RunningServer) -> None:
    answer = ask(logging_server, head("GET", "/healthz", f"X-Request-Id: {unique_name('mine')}"))
    assert (answer["X-Request-Id"] or "").startswith("mine-")
    assert logged(logging_server, answer)["path"] == "/healthz"


@pytest.mark.parametrize(
    ("request_head", "status"),
    [
        (head("GET", "/v1/stream/none"), 404),
        (head("GET", "/v1/stream/..?offset=%0a%22"), 400),
        (head("PATCH", "/v1/stream/none"), 405),
        (head("GET", "/nowhere"), 404),
        (b"garbage\r\n\r\n", 400),
    ],
)
def test_refusals_are_logged_with_their_status(
    logging_server: RunningServer, request_head: bytes, status: int
) -> None:
    answer = ask(logging_server, request_head)
    assert answer.status == status
    assert logged(logging_server, answer)["status"] == status


def test_a_follower_that_leaves_is_logged_too(logging_server: RunningServer) -> None:
    target = new_stream(logging_server)
    with Raw(logging_server.url) as raw:
        raw.send(head("GET", f"{target}?offset=now&live=sse"))
        answer = raw.beginning()
    assert logged(logging_server, answer)["path"] == f"{target}?offset=now&live=sse"


def test_a_request_is_one_line_of_text_for_people(talkative_server: RunningServer) -> None:
    answer = ask(talkative_server, head("GET", "/healthz"))
    text = f"request_id={answer['X-Request-Id']} "
    wait_until(lambda: text in talkative_server.log(), what="the line")
    lines = [line for line in talkative_server.log().splitlines() if text in line]
    assert len(lines) == 1
    assert "ds_server.access: " in lines[0]
    assert "method=GET path=/healthz status=200" in lines[0]
