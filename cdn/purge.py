"""What must be asked of a cache so that it forgets a stream."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

PLACE_OF_THE_TAG = "{tag}"


@dataclass(frozen=True, slots=True)
class Call:
    """An HTTP request; any status below 300 means that it is done."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Cdn(Protocol):
    """A cache that can be told to forget. An adapter for another CDN is one such function."""

    def purge(self, tag: str) -> Call: ...


@dataclass(frozen=True, slots=True)
class Varnish:
    """With the rules of `infra/edge/varnish.vcl`."""

    url: str
    secret: str

    def purge(self, tag: str) -> Call:
        return Call("BAN", self.url, {"DS-Edge-Secret": self.secret, "Cache-Tag": tag})


@dataclass(frozen=True, slots=True)
class Configured:
    """Any other: the tag is put where `{tag}` stands in address, headers or body."""

    method: str
    url: str
    headers: tuple[str, ...] = ()
    body: str = ""

    def purge(self, tag: str) -> Call:
        lines = (line.replace(PLACE_OF_THE_TAG, tag).partition(":") for line in self.headers)
        return Call(
            self.method,
            self.url.replace(PLACE_OF_THE_TAG, tag),
            {name.strip(): value.strip() for name, _, value in lines},
            self.body.replace(PLACE_OF_THE_TAG, tag).encode(),
        )
