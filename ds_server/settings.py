"""What can be set. Where the values come from is `layers`' business."""

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from ds_server.cpus import usable_cpus
from tiering.cold.keys import LONGEST_NAME

MiB, GiB = 2**20, 2**30

Text = Annotated[str, Meta(min_length=1, description="text that is not empty")]
Port = Annotated[int, Meta(ge=0, le=65535, description="a port from 0 (any free one) to 65535")]
Count = Annotated[int, Meta(ge=1, le=1024, description="a whole number from 1 to 1024")]
Delay = Annotated[float, Meta(gt=0, le=86400, description="seconds, more than 0, at most a day")]
OptionalDelay = Annotated[float, Meta(ge=0, le=86400, description="seconds, 0 (off) to a day")]
TailSeconds = Annotated[int, Meta(ge=0, le=10, description="whole seconds from 0 to 10")]
Bytes = Annotated[int, Meta(ge=1, description="a number of bytes, 1 or more")]
BodyBytes = Annotated[int, Meta(ge=1, le=256 * MiB, description="a number of bytes, 1 to 256 MiB")]
OptionalBytes = Annotated[int, Meta(ge=0, description="a number of bytes, 0 for no limit")]
NameBytes = Annotated[
    int, Meta(ge=1, le=LONGEST_NAME, description=f"a number of bytes, 1 to {LONGEST_NAME}")
]
ChunkBytes = Annotated[int, Meta(ge=1, le=GiB, description="a number of bytes, 1 to 1 GiB")]
Flag = Annotated[bool, Meta(description="true or false")]
Urls = Annotated[
    tuple[Annotated[str, Meta(pattern="^https?://.")], ...],
    Meta(description="a list of http:// or https:// URLs"),
]
HeaderLines = Annotated[
    tuple[Annotated[str, Meta(pattern="^[A-Za-z0-9-]+:")], ...],
    Meta(description="a list of headers, each as Name: value"),
]
Secret = Annotated[
    Annotated[str, Meta(pattern="^[A-Za-z0-9._~+/=-]{16,}$")] | None,
    Meta(description="16 or more letters, digits or ._~+/=-"),
]
Method = Annotated[str, Meta(pattern="^[A-Z]+$", description="an HTTP method")]
Origins = Annotated[tuple[str, ...], Meta(description="a list of origins")]
RedisUrl = Annotated[
    Annotated[str, Meta(pattern="^(redis|rediss|unix)://.")] | None,
    Meta(description="a redis://, rediss:// or unix:// URL"),
]
ObjectsUrl = Annotated[
    Annotated[str, Meta(pattern="^(s3|file)://.")] | None,
    Meta(description="an s3:// or file:// URL"),
]
Endpoint = Annotated[
    Annotated[str, Meta(pattern="^https?://.")] | None,
    Meta(description="an http:// or https:// URL"),
]
AnyText = Annotated[str, Meta(description="text")]
OptionalText = Annotated[str | None, Meta(description="text")]
OptionalPath = Annotated[str | None, Meta(description="the path of a file")]
Level = Annotated[
    Literal["debug", "info", "warning", "error"],
    Meta(description="debug, info, warning or error"),
]
Format = Annotated[Literal["text", "json"], Meta(description="text or json")]


class Section(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    pass


class Server(Section, frozen=True):
    host: Text = "127.0.0.1"
    port: Port = 4437
    workers: Count = field(default_factory=usable_cpus)
    long_poll_timeout_secs: Delay = 30.0
    sse_reconnect_interval_secs: OptionalDelay = 60.0


class Http(Section, frozen=True):
    cors_origins: Origins = ("*",)
    tail_cache_secs: TailSeconds = 1


class Limits(Section, frozen=True):
    max_body_bytes: BodyBytes = 16 * MiB
    max_stream_bytes: OptionalBytes = 0
    max_hot_bytes: Bytes = GiB
    max_snapshot_bytes: Bytes = 4 * GiB
    max_name_bytes: NameBytes = LONGEST_NAME
    body_timeout_secs: Delay = 30.0


class Redis(Section, frozen=True):
    url: RedisUrl = None
    timeout_secs: Delay = 15.0


class Storage(Section, frozen=True):
    data_dir: Text = "./data"


class Tiering(Section, frozen=True):
    chunk_bytes: ChunkBytes = 4 * MiB
    seal_age_secs: OptionalDelay = 60.0
    delete_grace_secs: OptionalDelay = 300.0
    sweep_secs: Delay = 60.0


class Objects(Section, frozen=True):
    url: ObjectsUrl = None
    endpoint: Endpoint = None
    region: OptionalText = None


class Cache(Section, frozen=True):
    chunk_bytes: Bytes = 32 * MiB


class Edge(Section, frozen=True):
    secret: Secret = None
    presign: Flag = True
    varnish: Urls = ()

    def __post_init__(self) -> None:
        if self.varnish and self.secret is None:
            raise ValueError("edge.varnish needs edge.secret: nobody else may purge")


class Purge(Section, frozen=True):
    url: Endpoint = None
    method: Method = "POST"
    headers: HeaderLines = ()
    body: AnyText = ""


class Tls(Section, frozen=True):
    cert_path: OptionalPath = None
    key_path: OptionalPath = None

    def __post_init__(self) -> None:
        if (self.cert_path is None) != (self.key_path is None):
            raise ValueError("tls.cert_path and tls.key_path must be set together")


class Log(Section, frozen=True):
    level: Level = "info"
    format: Format = "text"
    access: Flag = False


class Settings(Section, frozen=True):
    server: Server = Server()
    http: Http = Http()
    limits: Limits = Limits()
    redis: Redis = Redis()
    storage: Storage = Storage()
    tiering: Tiering = Tiering()
    objects: Objects = Objects()
    cache: Cache = Cache()
    edge: Edge = Edge()
    purge: Purge = Purge()
    tls: Tls = Tls()
    log: Log = Log()


SECTIONS: Mapping[str, type[msgspec.Struct]] = {
    section.name: section.type for section in msgspec.structs.fields(Settings)
}
TYPES: Mapping[str, Any] = {
    f"{name}.{key.name}": key.type
    for name, section in SECTIONS.items()
    for key in msgspec.structs.fields(section)
}


SECRETS = frozenset({"edge.secret", "purge.headers"})
"""Never shown."""


def flat(settings: Settings) -> Iterator[tuple[str, object]]:
    for name in TYPES:
        section, key = name.split(".")
        yield name, getattr(getattr(settings, section), key)


def masked(url: str) -> str:
    """The address without who may use it."""
    without_query = re.sub(r"((?:username|password)=)[^&]*", r"\1***", url)
    return re.sub(r"://.*@", "://***@", without_query)
