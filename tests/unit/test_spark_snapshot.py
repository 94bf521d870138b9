"""What of `ds-spark snapshot` needs no Spark: pointers, folds, rules, and how work is divided."""

from pathlib import Path

import pytest

from spark.changes import RESET, Bad, Write, reading
from spark.folds import Fold, load
from spark.half_pairs import elements, members
from spark.keyed import lines
from spark.planning import Sealed, Source
from spark.pointer import Pointer, Tombstone
from spark.publishing import Publisher
from spark.rules import Rule, first, read
from spark.shares import Note, Sample, Share, tasks, whole
from spark.snapshot_report import report
from spark.snapshot_summary import Line, Summary
from tiering.cold.cover import Slice
from tiering.cold.keys import Piece
from tiering.errors import Refused
from tiering.membership import Member
from tiering.snapshot import Snapshot

RFC = b"""{"foo": ["bar", "baz"], "": 0, "a/b": 1, "c%d": 2, "e^f": 3, "g|h": 4, "i\\\\j": 5,
 "k\\"l": 6, " ": 7, "m~n": 8}"""


@pytest.mark.parametrize(
    ("pointer", "found"),
    [
        ("", RFC),
        ("/foo", b'["bar", "baz"]'),
        ("/foo/0", b'"bar"'),
        ("/", b"0"),
        ("/a~1b", b"1"),
        ("/c%d", b"2"),
        ("/e^f", b"3"),
        ("/g|h", b"4"),
        ("/i\\j", b"5"),
        ('/k"l', b"6"),
        ("/ ", b"7"),
        ("/m~0n", b"8"),
        ("/foo/2", None),
        ("/foo/-", None),
        ("/foo/00", None),
        ("/foo/bar", None),
        ("/a~1b/c", None),
        ("/nobody", None),
    ],
)
def test_a_pointer_finds_what_the_rfc_says(pointer: str, found: bytes | None) -> None:
    assert Pointer.parse(pointer).find(RFC) == found


@pytest.mark.parametrize("text", ["foo", "/a~", "/a~2"])
def test_what_is_no_pointer_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="no JSON pointer"):
        Pointer.parse(text)


@pytest.mark.parametrize(
    ("tombstone", "message", "removes"),
    [
        ("/gone", b'{"gone": true}', True),
        ("/gone", b'{"gone":1}', False),
        ("/gone", b"{}", False),
        ("/value=null", b'{"value":null}', True),
        ("/value=null", b"{}", False),
        ('/op="delete"', b'{"op":"d\\u0065lete"}', True),
        ("/n=1", b'{"n":1e999}', False),
    ],
)
def test_a_tombstone_is_a_value_at_a_place(tombstone: str, message: bytes, removes: bool) -> None:
    assert Tombstone.parse(tombstone).removes(message) is removes


def test_changes_of_the_state_protocol_in_both_forms() -> None:
    read_state = reading(Fold.parse("state"))
    line = b'{"type":"t","key":"\xc3\xa9","value":1e400,"headers":{"operation":"insert"}}'
    key = b'"type":"t","key":"\xc3\xa9"'
    for operation in (b"insert", b"update", b"upsert"):
        new = b'{"headers":{"operation":"%b"},"key":"\\u00e9","value":1e400,"type":"t"}'
        assert read_state(new % operation) == Write(key, line)
    for operation in (b"set", b"append"):
        old = b'{"operation":"%b","key":"\xc3\xa9","value": 1e400 ,"type":"t"}'
        assert read_state(old % operation) == Write(key, line)
    delete = '{"type":"t","key":"\u00e9","headers":{"operation":"delete"}}'
    remove = '{"type":"t","key":"\u00e9","operation":"remove","value":7}'
    assert read_state(delete.encode()) == read_state(remove.encode()) == Write(key, None)
    assert read_state(b'{"headers":{"control":"reset","offset":"7"}}') is RESET
    assert read_state(b'{"headers":{"control":"snapshot-end"}}') is None


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"[]", "Expected `object`, got `array`"),
        (b'"{}"', "Expected `object`"),
        (b"nonsense", "not JSON"),
        (b'{"type":"t","key":"k","value":"\xff","operation":"set"', "not JSON"),
        (b"{}", "neither an operation nor a control"),
        (b'{"type":"t","key":"k","value":1,"operation":"insert"}', "no operation"),
        (b'{"type":"t","key":"k","value":1,"headers":{"operation":"set"}}', "no operation"),
        (b'{"headers":{"control":"stop"}}', "no control"),
        (b'{"key":"k","value":1,"operation":"set"}', "no type"),
        (b'{"type":"t","value":1,"operation":"set"}', "no key"),
        (b'{"type":"t","key":"k","operation":"set"}', "no value"),
        (b'{"type":"t","key":7,"value":1,"operation":"set"}', "got `int`"),
        (b'{"type":"\\ud800","key":7,"value":1,"operation":"set"}', "got `int`"),
        (b'{"type":"t","key":"k","operation":"set","value":%b}' % (b"[" * 10**5), "deep|JSON"),
    ],
)
def test_a_bad_message_says_why_it_is_bad(message: bytes, reason: str) -> None:
    with pytest.raises(Bad, match=reason):
        reading(Fold.parse("state"))(message)


def test_keys_of_last_by_key() -> None:
    last = reading(Fold.parse("last-by-key", "/a/0", "/gone"))
    assert last(b'{"a":["\\u0041"],\n"x":1}') == Write(b'"A"', b'{"a":["\\u0041"], "x":1}')
    assert last(b'{"a":[-7],"gone":true}') == Write(b"-7", None)
    assert last(b'{"a":[true]}') == Write(b"true", b'{"a":[true]}')
    assert last(b' {"a":["\\ud800"]}') == Write(b'"\\ud800"', b'{"a":["\\ud800"]}')
    for text in (b'{"a":[1.5]}', b'{"a":[null]}', b'{"a":[[1]]}', b'{"a":[]}', b"7", b"no", b'"'):
        with pytest.raises(Bad):
            last(text)


def test_halves_of_surrogate_pairs_are_read_all_the_same() -> None:
    message = b' { "a" : "\\ud800" , "b":[ 1 ,{"c":2}],"\\udfff":{} } '
    assert members(message) == {"a": b'"\\ud800"', "b": b'[ 1 ,{"c":2}]', "\udfff": b"{}"}
    assert elements(b'[ "\\ud800",1 , [2] ]') == [b'"\\ud800"', b"1", b"[2]"]
    assert elements(b"[]") == []
    state = reading(Fold.parse("state"))
    change = state(b'{"type":"\\ud800","key":"k","value":["\\uDC00"],"operation":"set"}')
    assert isinstance(change, Write)
    assert change.key == b'"type":"\\ud800","key":"k"'
    assert change.line is not None
    assert b'"value":["\\uDC00"]' in change.line


def test_a_snapshot_is_taken_apart_wherever_its_pieces_end() -> None:
    body = b'[\n{"a":1},\n{"b":"]"},\n3\n]'
    expected = [(2, b'{"a":1}'), (11, b'{"b":"]"}'), (22, b"3")]
    for size in range(1, len(body) + 1):
        pieces = [body[start : start + size] for start in range(0, len(body), size)]
        assert list(lines(pieces)) == expected
    assert list(lines([b"[\n]"])) == []
    with pytest.raises(Bad, match="in the middle"):
        list(lines([body[:-1]]))


def test_a_fold_knows_its_snapshots_by_their_type() -> None:
    folds = [
        Fold.parse("state"),
        Fold.parse("concat"),
        Fold.parse("last-by-key", "/id"),
        Fold.parse("last-by-key", '/"é"'),
        Fold.parse("last-by-key", "/id", "/gone"),
        Fold.parse("my.module:function", content_type="text/plain"),
    ]
    types = [fold.media_type("text/plain; charset=utf-8") for fold in folds]
    assert types[1] == "text/plain; charset=utf-8; fold=concat"
    assert types[3] == 'application/json; fold=last-by-key; key="/%22%C3%A9%22"'
    assert types[5] == 'text/plain; fold="my.module:function"'
    for fold in folds:
        made = [kind for kind in types if fold.made(kind)]
        assert made == [fold.media_type("text/plain; charset=utf-8")]


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("sum",), "no fold"),
        (("state", "/key"), "last-by-key"),
        (("last-by-key",), "JSON pointer"),
        (("concat", None, "/gone"), "tombstone"),
        (("state", None, None, "text/plain"), "function"),
        (("a:b", None, None, "text"), "no media type"),
        (("last-by-key", "/k", "/x=?"), "not JSON"),
    ],
)
def test_what_is_no_fold_is_refused(asked: tuple[str | None, ...], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        Fold.parse(*asked)  # type: ignore[arg-type]


def test_functions_are_found_or_missed_in_one_line() -> None:
    assert load("json:loads") is not None
    for name in ("nowhere:at_all", "json:nothing", "json:__name__"):
        with pytest.raises(Refused, match="the fold"):
            load(name)


def test_rules_are_read_and_the_first_that_covers_a_stream_counts(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(
        '[[rule]]\nbucket = "box-*"\nstream = "a?"\nfold = "state"\nevery = "15m"\nbytes = "2KiB"\n'
        '[[rule]]\nfold = "last-by-key"\nkey = "/id"\nmessages = 10\nmax_bad = 3\nbytes = 7\n'
    )
    rules = read(path)
    assert rules[0] == Rule("box-*", "a?", Fold.parse("state"), 0, 2048, None, 900)
    assert rules[1] == Rule("*", "*", Fold.parse("last-by-key", "/id"), 3, 7, 10, None)
    assert first(rules, Member("box-1", "ab")) is rules[0]
    assert first(rules, Member("box-1", "abc")) is rules[1]
    assert first(rules[:1], Member("other", "ab")) is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('[[rule]]\nfold = "state"\nevry = "1h"', "unknown field `evry`"),
        ('[[rules]]\nfold = "state"', "unknown field `rules`"),
        ('[[rule]]\nbucket = "b"', "missing required field `fold`"),
        ('[[rule]]\nfold = "state"\nevery = "soon"', "rule 1: every='soon' is no time"),
        ('[[rule]]\nfold = "state"\nbytes = "2MB"', "rule 1: bytes='2MB' is no size"),
        ('[[rule]]\nfold = "state"\nmax_bad = -1', "no negative"),
        ("[[rule", "rules.toml"),
    ],
)
def test_rules_that_nobody_knows_are_refused_in_one_line(
    tmp_path: Path, text: str, reason: str
) -> None:
    path = tmp_path / "rules.toml"
    path.write_text(text)
    with pytest.raises(Refused, match=reason) as refused:
        read(path)
    assert "\n" not in str(refused.value)
    with pytest.raises(Refused, match="cannot be read"):
        read(tmp_path / "nowhere.toml")


def share(number: int, pieces: int, previous: int | None = None) -> Share:
    source = Source("s", 1, "application/json")
    cut = [Piece("chunk", "s", 1, n * 10**6, (n + 1) * 10**6) for n in range(pieces)]
    sealed = tuple(Sealed(source, Slice(piece, piece.start, piece.end)) for piece in cut)
    known = None if previous is None else Snapshot(0, "k", "t", previous, "")
    return Share(number, Fold.parse("state"), known, sealed)


def test_large_streams_are_divided_and_small_ones_go_together() -> None:
    shares = [share(0, 5, 3 * 10**6), *(share(number, 1) for number in range(1, 5))]
    divided = tasks(shares, 25 * 10**5)
    parts = [part for task in divided for part in task]
    assert len(divided) == 6
    assert sum((part.previous is not None) for part in parts) == 1
    for one in shares:
        together = [sealed for part in parts if part.number == one.number for sealed in part.sealed]
        assert together == list(one.sealed)
    assert [[one.number for one in task] for task in whole(shares, 25 * 10**5)] == [
        [0],
        [1, 2],
        [3, 4],
    ]
    assert tasks([], 1) == whole([], 1) == []


def test_notes_of_many_tasks_become_one() -> None:
    note = Note(1, 1, [Sample("2", "r", "b")], reset=5)
    note.add(Note(2, 3, [Sample("1", "r", "a")], reset=None))
    note.add(Note(0, 0, [], 9, "damaged", "why"))
    note.add(Note(0, 0, [], None, "moved", "later"))
    assert (note.messages, note.bad, note.reset) == (3, 4, 9)
    assert [one.offset for one in note.samples] == ["1", "2"]
    assert (note.outcome, note.reason) == ("damaged", "why")


def test_a_server_has_a_scheme() -> None:
    for address in ("localhost:4437", "ftp://x", ""):
        with pytest.raises(Refused, match="is no server"):
            Publisher(address)


def test_a_report_shows_the_largest_and_what_must_be_looked_at() -> None:
    found = [Line(f"s{n}", "state", "o", bytes_before=n, outcome="published") for n in range(30)]
    found[3].outcome, found[3].reason = "bad", "2 bad messages"
    found[3].samples = [Sample("1_2", "no key", "{}")]
    found[4].outcome = "newer"
    text = report(Summary(31, 28, found, 1.5))
    assert text.startswith("published snapshots of 28 of 31 streams in 1.5 s")
    assert "... and 10 more" in text
    assert "1: a newer snapshot is in force" in text
    assert "s3: bad: 2 bad messages" in text
    assert "bad: s3 at 1_2: no key: '{}'" in text
    assert report(Summary(3, is_dry_run=True)) == "due: 0 of 3 streams"
