"""The settings in force, written as TOML with the origin of each value beside it."""

from collections.abc import Iterator
from itertools import groupby

import msgspec

from ds_server.layers import Loaded
from ds_server.settings import SECRETS, flat, masked


def listing(loaded: Loaded) -> str:
    rows = [(name, _row(name, value)) for name, value in flat(loaded.settings)]
    width = max(len(row) for _, row in rows)
    return "\n\n".join(
        "\n".join([f"[{section}]", *_lines(dict(members), width, loaded)])
        for section, members in groupby(rows, key=lambda row: row[0].split(".")[0])
    )


def _lines(rows: dict[str, str], width: int, loaded: Loaded) -> Iterator[str]:
    for name, row in rows.items():
        yield f"{row:<{width}}  # {loaded.origins[name]}"


def _row(name: str, value: object) -> str:
    key = name.split(".")[1]
    if value is None:
        return f"# {key} is not set"
    if name in SECRETS and value:
        return f"# {key} is set, and not shown"
    shown = masked(value) if name == "redis.url" and isinstance(value, str) else value
    return f"{key} = {msgspec.json.encode(shown).decode()}"
