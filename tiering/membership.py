"""Which bucket a stream belongs to, told by its name."""

import re
from dataclasses import dataclass

from tiering.errors import Invalid

BUCKETED = "__ds"
LONGEST_BYTES = 122
LISTING = "streams"
"""The listing of a bucket has the place that a stream of this id would have."""
RESERVED = f"The id '{LISTING}' is reserved for the bucket's listing."

_BUCKET = re.compile(r"[a-z0-9_-]{4,64}")


@dataclass(frozen=True, slots=True)
class Member:
    bucket: str
    stream: str

    @property
    def name(self) -> str:
        return f"{BUCKETED}/{self.bucket}/{self.stream}"


def member_of(name: str) -> Member | None:
    """None for a stream that is in no bucket."""
    if not name.startswith(f"{BUCKETED}/"):
        return None
    _, bucket, stream = name.split("/", 2)
    return Member(bucket, stream)


def bucket_id(text: str) -> str:
    if not _BUCKET.fullmatch(text):
        raise Invalid("A bucket's id has 4 to 64 of the characters a-z, 0-9, _ and -.")
    return text


def member(bucket: str, stream: str) -> Member:
    """Refuses ids that no stream can have."""
    found = Member(bucket_id(bucket), stream)
    if not stream:
        raise Invalid("A stream's id is not empty.")
    if len(f"{bucket}/{stream}".encode()) > LONGEST_BYTES:
        raise Invalid(f"Bucket and stream together have at most {LONGEST_BYTES} bytes.")
    if "/" in stream or "\0" in stream or ".." in stream:
        raise Invalid("A stream's id has no '/', no NUL and no '..'.")
    if stream == LISTING:
        raise Invalid(RESERVED)
    return found
