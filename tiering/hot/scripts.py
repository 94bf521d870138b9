"""The Lua scripts, one per verb, with the includes they share."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

BLOCK_BYTES = 1024 * 1024
# What a stream names instead of a run of Redis when every append was on disk before its answer.
DURABLE = "durable"


@dataclass(frozen=True, slots=True)
class Script:
    verb: str
    source: str
    sha: str


def _read(name: str) -> str:
    return files("tiering").joinpath("lua", name).read_text()


@cache
def load(verb: str) -> Script:
    """What the scripts share comes first, or where one of them says so."""
    early, _, late = _read(f"{verb}.lua").rpartition("\n-- include\n")
    source = "\n".join(
        [
            f"local BLOCK = {BLOCK_BYTES}",
            f"local DURABLE = '{DURABLE}'",
            early,
            *(_read(f"include/{part}.lua") for part in ("time", "blocks", "wipe", "store")),
            late,
        ]
    )
    return Script(verb, source, hashlib.sha1(source.encode()).hexdigest())


VERBS = (
    "append",
    "append_together",
    "compact",
    "create",
    "delete",
    "demote",
    "doom",
    "intend",
    "join",
    "lend",
    "look",
    "manifest",
    "mint",
    "pieces",
    "publish",
    "raze",
    "release",
    "relog",
    "restore",
    "seal",
    "settle",
    "survey",
    "trim",
)
