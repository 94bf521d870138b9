"""Entity tags: they change whenever anything in the answer does."""

from tiering.snapshot import Snapshot
from tiering.stream import Stream, View


def etag(view: View) -> str:
    flags = ""
    if view.at_closed_end:
        flags = ":c"
    elif view.at_tail:
        flags = ":t"
    return f'"{view.stream.log}:{view.start}:{view.end}{flags}"'


def snapshot_etag(stream: Stream, snapshot: Snapshot) -> str:
    is_latest = stream.tail == snapshot.position
    flags = (":c" if stream.closed else ":t") if is_latest else ""
    return f'"{stream.log}:{snapshot.position}:{snapshot.digest}{flags}"'


def matches(if_none_match: str | None, tag: str) -> bool:
    if if_none_match is None:
        return False
    candidates = (part.strip() for part in if_none_match.split(","))
    return any(known == "*" or known.removeprefix("W/") == tag for known in candidates)
