"""Every Redis key of this project. All keys of one stream share a hash slot."""

from dataclasses import dataclass
from urllib.parse import quote, unquote

LOG_COUNTER = "ds:logs"
SCHEDULE = "ds:schedule"
SWEEP = "ds:sweep"
DEPLOYMENT = "ds:deployment"
ANY_META = "ds:{*}:meta"

_PREFIX = "ds:{"
# Braces would end the hash tag early; the rest stays readable.
_SAFE = "/!$&'()*+,;=:@~ "


@dataclass(frozen=True, slots=True)
class StreamKeys:
    meta: str
    records: str
    cuts: str
    producers: str
    blocks: str
    live: str
    sealed: str
    folded: str
    lease: str

    def block(self, log: int, start: int) -> str:
        return f"{self.blocks}{log}:{start}"


def stream_keys(name: str) -> StreamKeys:
    tag = f"{_PREFIX}{quote(name, safe=_SAFE)}}}"
    return StreamKeys(
        meta=f"{tag}:meta",
        records=f"{tag}:records",
        cuts=f"{tag}:cuts",
        producers=f"{tag}:producers",
        blocks=f"{tag}:block:",
        live=f"{tag}:live",
        sealed=f"{tag}:sealed",
        folded=f"{tag}:folded",
        lease=f"{tag}:lease",
    )


def stream_name(key: str) -> str:
    """The stream that a key belongs to."""
    return unquote(key[len(_PREFIX) : key.index("}")])
