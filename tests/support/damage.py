"""Ways in which stored data can be wrong, each done to one stream of its own."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import redis
from support.repairs import keys_in, objects_of
from support.server import RunningServer

from ds_server.embedded import DataDirectory, EmbeddedRedis


@contextmanager
def own_redis(server: RunningServer) -> Iterator[redis.Redis]:
    """The hot tier of a server that does not run, to be changed behind its back."""
    directory = DataDirectory(server.data_dir)
    with asyncio.Runner() as runner:
        embedded = EmbeddedRedis(directory)
        runner.run(embedded.__aenter__())
        try:
            with closing(redis.Redis(unix_socket_path=str(embedded.socket))) as client:
                yield client
        finally:
            runner.run(embedded.__aexit__())


@dataclass(frozen=True, slots=True)
class Target:
    """A stream of two chunks of equal size, a part, and a tail that is in Redis only."""

    server: RunningServer
    redis: redis.Redis
    name: str

    def path(self, kind: str, number: int = 0) -> Path:
        """Its object of that kind: `chunks`, `parts`, `index/chunks`, `index/parts`, `manifest`."""
        keys = keys_in(self.server, f"{kind}/{self.name}/")
        own = [key for key in keys if key.startswith(kind)]
        return objects_of(self.server) / own[number]

    def key(self, kind: str) -> str:
        return f"ds:{{{self.name}}}:{kind}"


def _write(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def truncate(target: Target) -> None:
    _write(target.path("chunks"), lambda body: body[:-1])


def empty(target: Target) -> None:
    _write(target.path("parts"), lambda body: b"")


def alter(target: Target) -> None:
    _write(target.path("chunks"), lambda body: body[:500] + b"?" + body[501:])


def remove(target: Target) -> None:
    target.path("chunks", 1).unlink()


def lengthen(target: Target) -> None:
    _write(target.path("chunks"), lambda body: body + b"more")


def swap(target: Target) -> None:
    one, other = target.path("chunks", 0), target.path("chunks", 1)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)


def remove_index(target: Target) -> None:
    target.path("index/chunks").unlink()


def garble_index(target: Target) -> None:
    _write(target.path("index/chunks"), lambda index: index[:20] + index[40:])


def index_of_another(target: Target) -> None:
    target.path("index/chunks", 0).write_bytes(target.path("index/chunks", 1).read_bytes())


def index_of_the_future(target: Target) -> None:
    _write(target.path("index/parts"), lambda index: index[:3] + b"\x09" + index[4:])


def remove_manifest(target: Target) -> None:
    target.path("manifest").unlink()


def garble_manifest(target: Target) -> None:
    _write(target.path("manifest"), lambda manifest: manifest[:-3])


def manifest_of_the_future(target: Target) -> None:
    _write(target.path("manifest"), lambda m: re.sub(rb'"version": 1', b'"version": 99', m))


def manifest_of_another(target: Target) -> None:
    _write(target.path("manifest"), lambda m: m.replace(b"text/plain", b"text/html"))


def orphan(target: Target) -> None:
    known = target.path("parts")
    stranger = known.with_name(f"{7:016d}_{0:016d}-{5:016d}")
    stranger.write_bytes(b"stray")


def gap(target: Target) -> None:
    target.redis.zremrangebyrank(target.key("sealed"), 1, 1)


def cut_block(target: Target) -> None:
    [key] = target.redis.keys(target.key("block:*"))
    target.redis.set(key, target.redis.get(key)[:-1])


def lose_record(target: Target) -> None:
    target.redis.xtrim(target.key("records"), maxlen=0)


def change_producer(target: Target) -> None:
    target.redis.hset(target.key("folded"), "p", "0:99")


def garble_facts(target: Target) -> None:
    target.redis.hset(target.key("meta"), "tail", "far away")


def lose_facts(target: Target) -> None:
    target.redis.hdel(target.key("meta"), "lent")


def forget(target: Target) -> None:
    target.redis.delete(*target.redis.keys(target.key("*")))


Damage = Callable[[Target], None]

KINDS: dict[Damage, list[str]] = {
    truncate: ["damaged body"],
    empty: ["damaged body"],
    alter: ["damaged body"],
    remove: ["missing body"],
    lengthen: ["damaged body"],
    swap: ["damaged body", "damaged body"],
    remove_index: ["missing index"],
    garble_index: ["damaged index"],
    index_of_another: ["damaged index"],
    index_of_the_future: ["damaged index"],
    remove_manifest: ["missing manifest"],
    garble_manifest: ["damaged manifest"],
    manifest_of_the_future: ["damaged manifest"],
    manifest_of_another: ["damaged manifest"],
    orphan: ["orphan"],
    gap: ["gap"],
    cut_block: ["hot tail"],
    lose_record: ["hot tail"],
    change_producer: ["producers"],
    garble_facts: ["damaged stream"],
    lose_facts: ["damaged stream"],
    forget: ["lost stream", "orphan", "orphan", "orphan", "orphan", "orphan", "orphan"],
}
"""What fsck must say of each."""
