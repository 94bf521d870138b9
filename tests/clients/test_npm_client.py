"""The official npm client, @durable-streams/client, as an application uses it."""

import pytest
from clients.kinds import KIND_OF_BYTES, KIND_OF_JSON, KIND_OF_TEXT, KINDS, Kind
from clients.node import play, play_together
from support.client import JSON, TEXT, NewStream, Stream

LIVE_MODES = (True, "long-poll", "sse")
each_kind = pytest.mark.parametrize("kind", KINDS, ids=str)


async def test_a_stream_is_created_found_described_and_deleted(new_stream: NewStream) -> None:
    verdict = await play("lifecycle", url=new_stream(TEXT).url)
    assert verdict["before"] == {"exists": False}
    assert verdict["again"] is None
    assert verdict["other"] == 409
    assert verdict["contentType"] == "text/plain"
    assert verdict["lateSeq"] == 409
    assert verdict["head"]["exists"]
    assert not verdict["head"]["streamClosed"]
    assert verdict["text"] == "first, second"
    assert verdict["after"] == {"exists": False}
    assert verdict["gone"] == 404


@each_kind
async def test_appends_are_replayed_in_order(new_stream: NewStream, kind: Kind) -> None:
    messages = kind.messages(0, 40)
    batched, one_by_one = await play_together(
        "append",
        [
            {
                "url": new_stream(kind.content_type).url,
                "kind": kind.name,
                "messages": messages,
                "batching": batching,
            }
            for batching in (True, False)
        ],
    )
    assert batched == {"content": kind.content(messages), "posts": 3}
    assert one_by_one == {"content": kind.content(messages), "posts": 40}


async def test_a_pipe_into_a_stream_loses_nothing_and_closes_it(new_stream: NewStream) -> None:
    kinds = (KIND_OF_TEXT, KIND_OF_BYTES)
    verdicts = await play_together(
        "pipe",
        [
            {
                "url": new_stream(kind.content_type).url,
                "kind": kind.name,
                "messages": kind.messages(0, 40),
            }
            for kind in kinds
        ],
    )
    for kind, verdict in zip(kinds, verdicts, strict=True):
        assert verdict == {"content": kind.content(kind.messages(0, 40)), "closed": True}


@each_kind
async def test_a_replay_with_live_true_takes_all_answers_up_to_the_tail(
    new_stream: NewStream, kind: Kind
) -> None:
    stream = new_stream(kind.content_type)
    await stream.create()
    messages = kind.messages(0, 100)
    offsets = [(await stream.append(kind.body(message))).next_offset for message in messages]
    whole, half, nothing = await play_together(
        "replay",
        [
            {"url": stream.url, "kind": kind.name, "offset": offset}
            for offset in ("-1", offsets[49], "now")
        ],
    )
    assert whole["content"] == kind.content(messages)
    assert whole["requests"] > 1
    assert half["content"] == kind.content(messages[50:])
    assert nothing["content"] == kind.content([])


@each_kind
async def test_a_follower_gets_history_and_news_until_the_stream_is_closed(
    new_stream: NewStream, kind: Kind
) -> None:
    history, news = kind.messages(0, 30), kind.messages(30, 50)
    verdicts = await play_together(
        "follow",
        [
            {
                "url": new_stream(kind.content_type).url,
                "kind": kind.name,
                "live": live,
                "history": history,
                "messages": news,
            }
            for live in LIVE_MODES
        ],
    )
    for live, verdict in zip(LIVE_MODES, verdicts, strict=True):
        assert verdict["content"] == kind.content(history + news), live
        assert verdict["sessions"] == 1
        assert verdict["asked"] == [None, "sse" if live == "sse" else "long-poll"]


async def test_a_follower_goes_on_when_the_server_ends_its_sse_connections(
    new_impatient_stream: NewStream,
) -> None:
    verdict = await play("follow_for_long", url=new_impatient_stream(JSON).url, connections=3)
    assert verdict["content"] == list(range(verdict["written"]))
    assert verdict["sessions"] == 1


async def test_a_live_reader_sees_the_end_of_the_stream(new_stream: NewStream) -> None:
    verdicts = await play_together(
        "closing", [{"url": new_stream(JSON).url, "live": live} for live in LIVE_MODES]
    )
    for verdict in verdicts:
        end = verdict["finalOffset"]
        whole = {"content": [1, 2], "offset": end, "sessions": 1}
        assert verdict["waiting"] == verdict["late"] == whole
        assert verdict["atTheEnd"] == {"content": [], "offset": end, "sessions": 1}
        assert verdict["again"] == {"finalOffset": end}
        assert verdict["append"] == verdict["body"] == 409
        assert verdict["head"]["streamClosed"]
        assert verdict["head"]["offset"] == end


@each_kind
async def test_pipelined_batches_of_a_producer_arrive_once_and_in_order(
    new_stream: NewStream, kind: Kind
) -> None:
    stream = new_stream(kind.content_type)
    await stream.create()
    verdict = await play(
        "produce",
        url=stream.url,
        kind=kind.name,
        messages=kind.messages(0, 200),
        last=kind.message(200),
        fetch="recording",
        options={"maxBatchBytes": 300, "maxInFlight": 10},
    )
    assert verdict["errors"] == []
    assert verdict["batches"] > 20
    assert verdict["accepted"] == verdict["batches"] + 1
    assert verdict["duplicates"] == 0
    await assert_closed_with(stream, kind, 201, verdict["finalOffset"])


async def test_batches_that_overtake_each_other_are_put_in_order(new_stream: NewStream) -> None:
    kind, stream = KIND_OF_JSON, new_stream(JSON)
    await stream.create()
    verdict = await play(
        "produce",
        url=stream.url,
        kind=kind.name,
        messages=kind.messages(0, 50),
        last=kind.message(50),
        fetch="overtaken",
        options={"maxBatchBytes": 300},
    )
    assert verdict["errors"] == []
    assert verdict["outOfOrder"] > 0
    assert verdict["accepted"] == verdict["batches"] + 1
    await assert_closed_with(stream, kind, 51, verdict["finalOffset"])


async def test_a_producer_that_says_everything_twice_duplicates_nothing(
    new_stream: NewStream,
) -> None:
    kind, stream = KIND_OF_JSON, new_stream(JSON)
    await stream.create()
    verdict = await play(
        "produce",
        url=stream.url,
        kind=kind.name,
        messages=kind.messages(0, 50),
        last=kind.message(50),
        fetch="repeating",
        options={"maxBatchBytes": 300, "maxInFlight": 1},
    )
    assert verdict["errors"] == []
    assert verdict["batches"] > 5
    assert verdict["accepted"] == verdict["duplicates"] == verdict["batches"] + 1
    await assert_closed_with(stream, kind, 51, verdict["finalOffset"])


async def test_a_producer_of_an_old_epoch_is_fenced_off(new_stream: NewStream) -> None:
    verdict = await play("fencing", url=new_stream(JSON).url)
    assert verdict == {
        "items": ["first", "second", "third", "third, restarted"],
        "errors": [{"name": "StaleEpochError", "currentEpoch": 1}],
        "epochs": [0, 1, 3],
        "streamClosed": False,
    }


async def assert_closed_with(stream: Stream, kind: Kind, messages: int, end: str) -> None:
    answers = await stream.read_to_the_tail()
    assert kind.answered(answers) == kind.content(kind.messages(0, messages))
    assert answers[-1].next_offset == end
    assert answers[-1]["Stream-Closed"] == "true"
