"""One address has many spellings (RFC 3986, section 6.2.2): they lead to one place, and what only
looks like an address leads nowhere."""

from collections.abc import Iterator

import pytest
from support.client import Answer, assert_problem, unique_name
from support.raw import Raw, assert_clear_refusal, head, whole
from support.server import RunningServer

ROOTS = ["/%64s", "/d%73", "/%64%73"]
TEXT = "Content-Type: text/plain"


class Asking:
    """Paths go onto the wire as they are."""

    def __init__(self, raw: Raw) -> None:
        self._raw = raw

    def get(self, path: str) -> Answer:
        return self._raw.ask(head("GET", path))

    def put(self, path: str, body: bytes = b"", *lines: str) -> Answer:
        return self._raw.ask(whole("PUT", path, TEXT, *lines, body=body))

    def fork(self, path: str, source: str) -> Answer:
        return self._raw.ask(whole("PUT", path, f"Stream-Forked-From: {source}", body=b""))


@pytest.fixture
def ask(server: RunningServer) -> Iterator[Asking]:
    with Raw(server.url) as raw:
        yield Asking(raw)


@pytest.fixture
def bucket(ask: Asking) -> str:
    found = unique_name("b")
    assert ask.put(f"/ds/{found}").status == 201
    return found


def escaped(path: str, at: int) -> str:
    return f"{path[:at]}%{ord(path[at]):02X}{path[at + 1 :]}"


def positions(path: str, *, of_slashes: bool) -> list[int]:
    return [at for at, letter in enumerate(path) if (letter == "/") == of_slashes]


@pytest.mark.parametrize("root", ROOTS)
def test_an_escape_in_the_root_leads_past_no_bucket(ask: Asking, root: str) -> None:
    missing = unique_name("missing")
    assert_problem(ask.put(f"{root}/{missing}/x", b"hello"), 404)
    for other in (f"/v1/stream//ds/{missing}/x", f"/v1/stream/ds/{missing}/x"):
        assert_problem(ask.get(other), 404)


@pytest.mark.parametrize("root", ROOTS)
def test_a_stream_is_the_same_however_its_root_is_written(
    ask: Asking, bucket: str, root: str
) -> None:
    made = ask.put(f"{root}/{bucket}/a", b"hello")
    assert made.status == 201
    assert ask.get(f"/ds/{bucket}/a").body == b"hello"
    place = f"{root}/{bucket}/a/snapshot"
    assert ask.put(f"{place}/{made.next_offset}", b"folded").status == 204
    assert ask.get(f"/ds/{bucket}/a/snapshot/{made.next_offset}").body == b"folded"
    assert ask.get(ask.get(place)["Location"] or "").body == b"folded"
    assert ask.get(f"{root}/{bucket}").json()["streams"] == 1


@pytest.mark.parametrize("resource", ["", "/a", "/streams", "/a/bootstrap", "/a/snapshot"])
def test_any_letter_may_be_escaped(ask: Asking, bucket: str, resource: str) -> None:
    made = ask.put(f"/ds/{bucket}/a", b"hello")
    assert ask.put(f"/ds/{bucket}/a/snapshot/{made.next_offset}", b"folded").status == 204
    path = f"/ds/{bucket}{resource}"
    query = f"?offset={made.next_offset}" if resource == "/a" else ""
    wanted = ask.get(path + query).status
    assert wanted in (200, 307)
    found = {ask.get(escaped(path, at) + query).status for at in positions(path, of_slashes=False)}
    assert found == {wanted}


@pytest.mark.parametrize("resource", ["", "/a", "/streams", "/a/bootstrap", "/a/snapshot"])
def test_no_slash_may_be_escaped(ask: Asking, bucket: str, resource: str) -> None:
    assert ask.put(f"/ds/{bucket}/a", b"hello").status == 201
    path = f"/ds/{bucket}{resource}"
    for at in positions(path, of_slashes=True)[1:]:
        assert_clear_refusal(ask.get(escaped(path, at)), 400, 404)


@pytest.mark.parametrize(
    "spelled",
    [
        "/DS/{}/x",
        "/%44S/{}/x",
        "//ds/{}/x",
        "/ds//{}/x",
        "/ds/{}//x",
        "/ds/{}/x/",
        "/ds/{}/",
        "/ds%2F{}/x",
        "/ds%2F{}%2Fx",
        "/%2564s/{}/x",
        "/%25%36%34s/{}/x",
        "/./ds/{}/x",
        "/%2E/ds/{}/x",
        "/ds/./{}/x",
        "/ds/../ds/{}/x",
        "/v1/stream/../../ds/{}/x",
        "/v1/stream/%2E%2E/%2E%2E/ds/{}/x",
        "/v1/../ds/{}/x",
        "/v1%2Fstream/{}/x",
        "/v1%2Fstream%2F{}%2Fx",
        "/V1/stream/{}/x",
        "//v1/stream/{}/x",
        "/v1//stream/{}/x",
    ],
)
def test_what_only_looks_like_a_stream_is_none(ask: Asking, bucket: str, spelled: str) -> None:
    path = spelled.format(bucket)
    assert_clear_refusal(ask.put(path, b"hello"), 400, 404)
    assert_clear_refusal(ask.get(path), 400, 404)
    assert_problem(ask.fork(f"/ds/{bucket}/fork", path), 400)
    assert ask.get(f"/ds/{bucket}").json()["streams"] == 0


def test_a_name_is_unescaped_once(ask: Asking, bucket: str) -> None:
    assert ask.put(f"/ds/{bucket}/%2573treams", b"hello").status == 201
    [entry] = ask.get(f"/ds/{bucket}/%73treams").json()["streams"]
    assert entry["stream_id"] == "%73treams"


def test_the_reserved_id_is_reserved_however_it_is_written(ask: Asking, bucket: str) -> None:
    assert_problem(ask.put(f"/ds/{bucket}/%73treams"), 400)
    assert_problem(ask.put(f"/%64s/{bucket}/stream%73"), 400)
    assert ask.get(f"/%64s/{bucket}/stream%73").json()["stream_count"] == 0


@pytest.mark.parametrize("path", ["/%64s/{}/a", "/d%73/{}/%61", "/ds/{}/%61"])
def test_a_fork_finds_its_source_however_that_is_written(
    ask: Asking, bucket: str, path: str
) -> None:
    assert ask.put(f"/ds/{bucket}/a", b"hello").status == 201
    source = path.format(bucket)
    assert ask.fork(f"/ds/{bucket}/fork", source).status == 201
    assert ask.get(f"/ds/{bucket}/fork").body == b"hello"
    assert_problem(ask.fork(f"/ds/{bucket}/other", f"{source}/bootstrap"), 400)


def test_a_fork_of_a_stream_in_no_bucket_may_spell_its_root_too(ask: Asking) -> None:
    name = unique_name()
    assert ask.put(f"/v1/strea%6D/{name}", b"hello").status == 201
    assert ask.fork(f"/v1/stream/{name}-fork", f"/v1/strea%6D/{name}").status == 201
    assert ask.get(f"/%76%31/stream/{name}-fork").body == b"hello"
