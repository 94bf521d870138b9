"""Every Redis key of this project. All keys of one stream share a hash slot."""

from dataclasses import dataclass
from urllib.parse import quote, unquote

LOG_COUNTER = "ds:logs"
SCHEDULE = "ds:schedule"
SWEEP = "ds:sweep"
GRAVES = "ds:graves"
JANITOR = "ds:janitor"
RECALLS = "ds:recalls"
RECALLER = "ds:recaller"
FENCE = "ds:fence"
RECOVERING = "ds:recovering"
LOSSES = "ds:recovering:losses"
DEPLOYMENT = "ds:deployment"
ANY_META = "ds:{*}:meta"
ANY_BUCKET = "ds:bucket:{*}:meta"
ANY_DEAD = "ds:{*}:dead"
ANY_SEALED = "ds:{*}:sealed"
ANY_SHED = "ds:{*}:shed"
ANY_HORIZON = "ds:{*}:horizon"
ANY_RECALLS = "ds:{*}:recalls"
ANY = "ds:*"

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
    dead: str
    loans: str
    shed: str
    horizon: str
    recalls: str

    @property
    def of_append(self) -> tuple[str, ...]:
        return (self.meta, self.records, self.cuts, self.producers, self.blocks, self.live)

    @property
    def of_appends_together(self) -> tuple[str, ...]:
        return (self.meta, self.records, self.cuts, self.blocks, self.live)

    @property
    def all(self) -> tuple[str, ...]:
        """But for the lease, which is not the stream's but its sealer's, and for what is recalled,
        which only deleting and publishing add to."""
        kept = (self.sealed, self.folded, self.dead, self.loans, self.shed, self.horizon)
        return (*self.of_append, *kept)

    def block(self, log: int, start: int) -> str:
        return f"{self.blocks}{log}:{start}"

    def staged(self, count: int) -> list[str]:
        return [f"{self.blocks}staged:{number}" for number in range(1, count + 1)]


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
        dead=f"{tag}:dead",
        loans=f"{tag}:loans",
        shed=f"{tag}:shed",
        horizon=f"{tag}:horizon",
        recalls=f"{tag}:recalls",
    )


@dataclass(frozen=True, slots=True)
class BucketKeys:
    meta: str
    streams: str


def bucket_keys(bucket: str) -> BucketKeys:
    tag = f"ds:bucket:{{{bucket}}}"
    return BucketKeys(meta=f"{tag}:meta", streams=f"{tag}:streams")


def bucket_name(key: str) -> str:
    """The bucket that a key belongs to."""
    return key[key.index("{") + 1 : key.index("}")]


def stream_name(key: str) -> str:
    """The stream that a key belongs to."""
    return unquote(key[len(_PREFIX) : key.index("}")])
