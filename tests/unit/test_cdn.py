"""The cache rules, row by row of the table in the design."""

from dataclasses import replace

import pytest

from cdn import policy
from cdn.cursor import EPOCH_SECS, INTERVAL_SECS, cursor
from cdn.etag import etag, matches
from cdn.policy import Read, cache_control
from cdn.purge import Call, Configured, Varnish
from cdn.tags import tag, tags
from tiering.offset import NOW, START, Offset
from tiering.stream import ContentType, Lifetime, Stream, View

OPEN = Stream(
    name="s",
    log=7,
    ancestors=(),
    content_type=ContentType("text/plain"),
    lifetime=Lifetime(),
    deadline_ms=None,
    closed=False,
    tail=100,
    earliest=0,
    sealed=0,
    base=0,
    grid=4 * 1024 * 1024,
    now_ms=1_000_000,
)
CLOSED = replace(OPEN, closed=True)
OWN = Offset(7, 0)
IMMUTABLE = "public, max-age=31536000, immutable"
CHUNK_WITHOUT_LOG = (
    "public, max-age=0, s-maxage=60, stale-while-revalidate=300, stale-if-error=86400"
)


def chunk(stream: Stream) -> View:
    return View(stream, 0, 50)


def tail(stream: Stream) -> View:
    return View(stream, 50, 100)


def with_ttl(secs: int) -> Stream:
    return replace(OPEN, lifetime=Lifetime(ttl_secs=secs), deadline_ms=1_000_000 + secs * 1000)


def with_expiry(left_secs: float) -> Stream:
    deadline = int(1_000_000 + left_secs * 1000)
    return replace(OPEN, lifetime=Lifetime(expires_ms=deadline), deadline_ms=deadline)


@pytest.mark.parametrize(
    ("view", "source", "expected"),
    [
        (chunk(OPEN), OWN, IMMUTABLE),
        (chunk(OPEN), START, CHUNK_WITHOUT_LOG),
        (chunk(OPEN), Offset(5, 0), CHUNK_WITHOUT_LOG),
        (tail(OPEN), OWN, "public, max-age=0, s-maxage=1"),
        (tail(OPEN), START, "public, max-age=0, s-maxage=1"),
        (View(OPEN, 100, 100), OWN, "public, max-age=0, s-maxage=1"),
        (tail(CLOSED), OWN, IMMUTABLE),
        (tail(CLOSED), START, CHUNK_WITHOUT_LOG),
        (tail(OPEN), NOW, "no-store"),
        (chunk(with_ttl(40)), OWN, "public, max-age=0, s-maxage=10"),
        (chunk(with_ttl(4000)), OWN, "public, max-age=0, s-maxage=60"),
        (tail(with_ttl(4)), OWN, "public, max-age=0, s-maxage=1"),
        (tail(with_ttl(3)), OWN, "no-store"),
        (chunk(with_expiry(30.9)), OWN, "public, max-age=0, s-maxage=30"),
        (chunk(with_expiry(0.9)), OWN, "no-store"),
    ],
)
def test_catch_up(view: View, source: Offset, expected: str) -> None:
    assert cache_control(Read(view, source)) == expected


def test_a_tail_that_must_not_be_kept() -> None:
    assert cache_control(Read(tail(OPEN), OWN, tail_secs=0)) == "no-store"


@pytest.mark.parametrize(
    ("view", "source", "expected"),
    [
        (tail(OPEN), OWN, "public, max-age=20"),
        (tail(OPEN), START, CHUNK_WITHOUT_LOG.replace("=60", "=20")),
        (tail(OPEN), NOW, "no-store"),
        (View(OPEN, 100, 100), OWN, "no-store"),
        (tail(with_ttl(40)), OWN, "public, max-age=0, s-maxage=10"),
    ],
)
def test_long_poll(view: View, source: Offset, expected: str) -> None:
    assert cache_control(Read(view, source, "long-poll")) == expected


@pytest.mark.parametrize("source", [OWN, START, NOW])
def test_sse_is_for_whoever_is_connected(source: Offset) -> None:
    assert cache_control(Read(tail(OPEN), source, "sse")) == "no-cache"


@pytest.mark.parametrize(
    ("read", "expected"),
    [
        (Read(chunk(OPEN), OWN), "private, max-age=31536000, immutable"),
        (Read(chunk(OPEN), START), "private, max-age=0"),
        (Read(tail(OPEN), OWN), "private, max-age=0"),
        (Read(tail(OPEN), NOW), "private, no-store"),
        (Read(tail(OPEN), OWN, "long-poll"), "private, max-age=20"),
        (Read(View(OPEN, 100, 100), OWN, "long-poll"), "private, no-store"),
        (Read(tail(OPEN), OWN, "sse"), "private, no-cache"),
    ],
)
def test_a_private_stream_is_for_its_reader_alone(read: Read, expected: str) -> None:
    assert cache_control(replace(read, is_private=True)) == expected
    with_key = replace(read, is_private=True, has_read_key=True)
    assert cache_control(with_key) == cache_control(read)


ROWS = [
    Read(view(stream), source, live)
    for view in (chunk, tail)
    for stream in (OPEN, CLOSED, with_ttl(40), with_expiry(30))
    for source in (OWN, START, NOW, Offset(5, 0))
    for live in (None, "long-poll", "sse")
]


@pytest.mark.parametrize("read", ROWS)
def test_what_a_browser_keeps_for_long_names_the_log_and_cannot_change(read: Read) -> None:
    if "immutable" in cache_control(read):
        assert read.source == OWN
        assert read.live is None
        assert not read.view.stream.lifetime.ends
        assert not read.view.at_tail or read.view.at_closed_end


@pytest.mark.parametrize("read", ROWS)
def test_nothing_stale_is_served_of_a_tail_or_of_a_stream_that_ends(read: Read) -> None:
    is_tail = read.view.at_tail and not read.view.stream.closed and read.live is None
    if is_tail or read.view.stream.lifetime.ends:
        assert "stale" not in cache_control(read)


@pytest.mark.parametrize(("planned", "shared"), [(60, 55), (6, 1), (5, 0), (1, 0), (0, 55)])
def test_an_sse_answer_is_not_kept_until_its_end(planned: float, shared: int) -> None:
    assert policy.shared_sse_secs(planned) == shared


def test_a_tag_has_no_character_that_separates_tags() -> None:
    assert tag("a/b c,d\u00e9") == "stream-a%2Fb%20c%2Cd%C3%A9"
    assert tags("a") == {"Cache-Tag": "stream-a", "Surrogate-Key": "stream-a"}


def test_varnish_is_asked_to_ban() -> None:
    call = Varnish("http://edge", "secret").purge("stream-a")
    assert call == Call("BAN", "http://edge", {"DS-Edge-Secret": "secret", "Cache-Tag": "stream-a"})


def test_any_other_cache_is_asked_as_the_settings_say() -> None:
    cache = Configured("POST", "https://c/{tag}", ("Key: k", "Tag:{tag}"), '{"tags":["{tag}"]}')
    assert cache.purge("stream-a") == Call(
        "POST", "https://c/stream-a", {"Key": "k", "Tag": "stream-a"}, b'{"tags":["stream-a"]}'
    )


def test_the_tag_changes_with_everything_the_answer_says() -> None:
    views = [
        chunk(OPEN),
        tail(OPEN),
        tail(CLOSED),
        View(OPEN, 100, 100),
        View(replace(OPEN, tail=50), 0, 50),
        chunk(replace(OPEN, log=8)),
    ]
    assert len({etag(view) for view in views}) == len(views)
    assert etag(tail(OPEN)) == '"7:50:100:t"'
    assert etag(tail(CLOSED)) == '"7:50:100:c"'
    assert etag(chunk(CLOSED)) == '"7:0:50"'


@pytest.mark.parametrize("header", ['"a"', 'W/"a"', '"b", "a"', "*"])
def test_if_none_match_knows_lists_weak_tags_and_the_star(header: str) -> None:
    assert matches(header, '"a"')


@pytest.mark.parametrize("header", [None, "", '"b"', "a"])
def test_if_none_match_does_not_match_other_tags(header: str | None) -> None:
    assert not matches(header, '"a"')


NOW_SECS = EPOCH_SECS + 1000 * INTERVAL_SECS


def test_the_cursor_is_the_current_interval() -> None:
    assert cursor(NOW_SECS, "s", None) == 1000
    assert cursor(NOW_SECS + INTERVAL_SECS - 0.001, "s", "999") == 1000


@pytest.mark.parametrize("theirs", ["1000", "1001", "999999999999"])
def test_a_cursor_always_advances_and_never_by_more_than_an_hour(theirs: str) -> None:
    answer = cursor(NOW_SECS, "s", theirs)
    assert 1 <= answer - int(theirs) <= 3600 // INTERVAL_SECS


def test_the_same_question_gets_the_same_cursor() -> None:
    assert cursor(NOW_SECS, "s", "1000") == cursor(NOW_SECS + 5, "s", "1000")


@pytest.mark.parametrize("theirs", ["", "x", "-1", "1e3", "٣", "9" * 100])
def test_a_cursor_that_was_never_ours_is_ignored(theirs: str) -> None:
    assert cursor(NOW_SECS, "s", theirs) == 1000
