"""What a follower can be told, read once."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from spark.options import Options
from tiering.errors import Refused
from tiering.offset import START, Offset, ReadFrom, parse_read_from

PARTITION_BYTES = 64 * 2**20
"""It must stay: sinks may tell by its tasks that an unfinished batch comes again."""

_NOT_HERE = {
    "includetail": "includeTail",
    "server": "server",
    "since": "since",
    "until": "until",
}


@dataclass(frozen=True, slots=True)
class FollowOptions:
    """`shared` are those that a reader of the whole has too."""

    shared: Options
    begin: ReadFrom = START
    most_bytes: int | None = None
    fails_on_loss: bool = True

    @classmethod
    def parse(cls, given: Mapping[str, str]) -> "FollowOptions":
        options = {name.lower(): value for name, value in given.items()}
        if misplaced := sorted(options.keys() & _NOT_HERE.keys()):
            name = _NOT_HERE[misplaced[0]]
            raise Refused(f"readStream has no option {name}: it follows what is sealed")
        begin = _begin(options.pop("from", START.value))
        most_bytes = _most_bytes(options.pop("maxbytespertrigger", None))
        fails_on_loss = _is_true(options.pop("failondataloss", "true"))
        shared = Options.parse({"partitionbytes": str(PARTITION_BYTES)} | options)
        if isinstance(begin, Offset) and not shared.selection.is_whole:
            raise Refused("from is an offset of one stream: name it with the option stream")
        return cls(shared, begin, most_bytes, fails_on_loss)


def _begin(text: str) -> ReadFrom:
    begin = parse_read_from(text)
    if begin is None:
        raise Refused(f"from={text!r} is neither -1, nor now, nor an offset of a stream")
    return begin


def _most_bytes(text: str | None) -> int | None:
    if text is None:
        return None
    if not re.fullmatch("[0-9]+", text) or not 0 < int(text) < 2**63:
        raise Refused(f"maxBytesPerTrigger={text!r} is no number of bytes")
    return int(text)


def _is_true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise Refused(f"failOnDataLoss={text!r} is neither true nor false")
    return text.lower() == "true"
