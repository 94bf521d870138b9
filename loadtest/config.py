"""What `systems.toml` says: the servers to compare, and what is to be reached."""

import fnmatch
import tomllib
from pathlib import Path

import msgspec

HERE = Path(__file__).parent


class System(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`systems.toml` explains the keys."""

    name: str
    label: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    npm: str | None = None
    url: str | None = None
    ready: str | None = None
    ready_url: str | None = None
    says: dict[str, str] = {}
    streams: str = "/v1/stream"
    store_gauge: str | None = None
    workloads: tuple[str, ...] = ("*",)
    sizes: dict[str, int] = {}
    baseline: bool = False
    judged: bool = False

    def __post_init__(self) -> None:
        if bool(self.command) == bool(self.url):
            raise ValueError(f"system {self.name} needs a command or a url, and not both")

    def takes_part_in(self, workload: str) -> bool:
        return matches(workload, self.workloads)


class Bar(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A figure's limit; with `times`, its ratio to that of another system."""

    workloads: tuple[str, ...]
    figure: str
    at_least: float | None = None
    at_most: float | None = None
    times: str | None = None


class Config(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    system: tuple[System, ...]
    bar: tuple[Bar, ...] = ()

    def named(self, name: str) -> System:
        return next(system for system in self.system if system.name == name)


def load(path: Path) -> Config:
    return msgspec.convert(tomllib.loads(path.read_text()), type=Config)


def matches(name: str, patterns: tuple[str, ...] | list[str]) -> bool:
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
