"""HTTP/1.1 as bytes: the requests that are sent, and just enough of the answers."""

from collections.abc import Mapping
from dataclasses import dataclass

END_OF_HEAD = b"\r\n\r\n"
WITHOUT_BODY = (204, 304)


def request(
    method: str, path: str, headers: Mapping[str, str] | None = None, body: bytes = b""
) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    if method in ("PUT", "POST"):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "", ""]).encode() + body


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def succeeded(self) -> bool:
        return 200 <= self.status < 300


def is_bare_success(data: bytes) -> bool:
    """Whether these bytes are a whole 204, the usual answer to an append."""
    return data.startswith(b"HTTP/1.1 204") and data.endswith(END_OF_HEAD)


def whole_answer(data: bytes) -> Answer | None:
    """The answer in `data`; None as long as it is not complete. One is awaited at a time."""
    head, end_of_head, rest = data.partition(END_OF_HEAD)
    if not end_of_head:
        return None
    status, headers = parse_head(head)
    body = b"" if status in WITHOUT_BODY else _whole_body(headers, rest)
    return None if body is None else Answer(status, headers, body)


def parse_head(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in pairs}


def _whole_body(headers: Mapping[str, str], rest: bytes) -> bytes | None:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        return _join_chunks(rest)
    length = int(headers.get("content-length", "0"))
    return rest[:length] if len(rest) >= length else None


def _join_chunks(rest: bytes) -> bytes | None:
    chunks: list[bytes] = []
    while True:
        size_line, end_of_line, rest = rest.partition(b"\r\n")
        size = int(size_line.split(b";")[0], 16) if end_of_line else 0
        if not end_of_line or len(rest) < size + 2:
            return None
        if size == 0:
            return b"".join(chunks)
        chunks.append(rest[:size])
        rest = rest[size + 2 :]
