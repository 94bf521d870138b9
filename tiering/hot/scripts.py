"""The Lua scripts, one per verb, with the includes they share."""

import hashlib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

BLOCK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Script:
    verb: str
    source: str
    sha: str


def _read(name: str) -> str:
    return files("tiering").joinpath("lua", name).read_text()


@cache
def load(verb: str) -> Script:
    source = "\n".join(
        [
            f"local BLOCK = {BLOCK_BYTES}",
            *(_read(f"include/{part}.lua") for part in ("time", "blocks", "wipe", "store")),
            _read(f"{verb}.lua"),
        ]
    )
    return Script(verb, source, hashlib.sha1(source.encode()).hexdigest())


VERBS = (
    "append",
    "create",
    "delete",
    "look",
    "manifest",
    "mint",
    "seal",
    "settle",
    "survey",
)
