"""What is appended in random histories."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st


@dataclass(frozen=True, slots=True)
class Part:
    """One message to be, or a run of bytes: a shape, and how far it is stretched."""

    shape: int
    size: int

    def as_json(self, serial: int) -> bytes:
        pad = "x" * self.size
        shapes = [
            f'{{"n":{serial},"pad":"{pad}"}}',
            f'{{ "n" : {serial} ,\n\t"n" : 1.10, "pad":"\\u00e9é\\ud83d\\ude00{pad}" }}',
            f'[{serial}, ["{pad}"]]',
            f'"{serial} \\/ \\" {pad}"',
            f"{serial}{'0' * self.size}.10",
            "-0",
            "1E400",
            "null",
            "[]",
            "{ }",
        ]
        return shapes[self.shape % len(shapes)].encode()

    def as_bytes(self, serial: int) -> bytes:
        return b"%d\r\n\x00\xff" % serial + bytes([self.shape]) * self.size


@dataclass(frozen=True, slots=True)
class Batch:
    """Drawn without knowing for which kind of stream it will be."""

    parts: list[Part]
    space: bytes
    bare: bool

    def messages(self, serials: Iterator[int]) -> list[bytes]:
        return [part.as_json(next(serials)) for part in self.parts]

    def json_body(self, messages: list[bytes]) -> bytes:
        space = self.space
        if self.bare and len(messages) == 1 and not messages[0].startswith(b"["):
            return space + messages[0] + space
        inside = b",".join(space + message + space for message in messages)
        return space + b"[" + inside + b"]" + space

    def bytes_body(self, serials: Iterator[int]) -> bytes:
        return b"".join(part.as_bytes(next(serials)) for part in self.parts)


PARTS = st.builds(
    Part,
    shape=st.integers(0, 9),
    size=st.one_of(
        st.integers(0, 60),
        st.integers(0, 900),
        st.sampled_from([1000, 1023, 1024, 1025, 2048, 5000]),
    ),
)
BATCHES = st.builds(
    Batch,
    parts=st.lists(PARTS, min_size=1, max_size=12),
    space=st.sampled_from([b"", b"", b" ", b"\r\n\t "]),
    bare=st.booleans(),
)
