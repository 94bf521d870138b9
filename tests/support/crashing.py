"""A command of the server in a process that ends itself at a chosen point, without a word.

The production code has no hooks for this: what is wrapped here are the two ways out of the
process, object storage and Redis.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from ds_server import cli
from ds_server.attached import attached_deployment
from ds_server.layers import load
from ds_server.purge import Purger
from ds_server.upkeep import _assembled
from tiering.cold.merge import merge
from tiering.compaction import Compaction
from tiering.forks import ForkPlace, Wishes
from tiering.hot.compaction import Outcome
from tiering.hot.pipe import Pipe
from tiering.messages import NOTHING
from tiering.objects.directory import DirectoryStore
from tiering.objects.store import ObjectStore
from tiering.offset import Offset, parse_read_from
from tiering.snapshots import Snapshots
from tiering.stream import Configuration, ContentType, Lifetime
from tiering.streams import Streams

EXIT_CODE = 66
PIECE_BYTES = 100_000
ACTS = (
    "delete",
    "expire",
    "create",
    "fork",
    "create-bucket",
    "delete-bucket",
    "publish",
    "compact",
)


class Sender:
    """Of a snapshot, piece by piece."""

    async def send(self, piece: str) -> bytes:
        return piece.encode() * PIECE_BYTES


OWNERS: dict[str, type] = {
    "send": Sender,
    "put": DirectoryStore,
    "put_if_absent": DirectoryStore,
    "put_pieces": DirectoryStore,
    "delete": DirectoryStore,
    "run": Pipe,
    "call": Pipe,
    "forget": Purger,
}


When = Literal["before", "after", "frozen before"]


@dataclass(frozen=True, slots=True)
class Point:
    """Before or after the nth call of a method whose arguments begin with these words; or the
    process only freezes there."""

    when: When
    method: str
    words: str
    nth: int = 1

    def on(self, name: str) -> "Point":
        """The words are about the stream of that name, where they say NAME."""
        return replace(self, words=self.words.replace("NAME", name))

    def inject(self) -> None:
        owner = OWNERS[self.method]
        original: Callable[..., Awaitable[Any]] = getattr(owner, self.method)
        left = self.nth

        async def wrapped(this: object, *arguments: Any, **named: Any) -> Any:
            nonlocal left
            left -= (matches := spoken(arguments).startswith(self.words))
            ends = matches and left == 0
            if ends and self.when == "frozen before":
                os.kill(os.getpid(), signal.SIGSTOP)
            if ends and self.when == "before":
                os._exit(EXIT_CODE)
            result = await original(this, *arguments, **named)
            if ends and self.when == "after":
                os._exit(EXIT_CODE)
            return result

        setattr(owner, self.method, wrapped)


def spoken(arguments: tuple[Any, ...]) -> str:
    flat = (arg if isinstance(arg, str) else " ".join(map(str, arg)) for arg in words_of(arguments))
    return " ".join(flat)


def words_of(arguments: tuple[Any, ...]) -> list[Any]:
    return [word for word in arguments if isinstance(word, str | list | tuple)]


def start(environment: dict[str, str], point: Point, *arguments: str) -> "subprocess.Popen[str]":
    injected = [point.when, point.method, point.words, str(point.nth)]
    return subprocess.Popen(
        [sys.executable, __file__, *injected, *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def crash(environment: dict[str, str], point: Point, *arguments: str) -> None:
    """Runs the command in a process that must end at the point."""
    with start(environment, point, *arguments) as process:
        printed, _ = process.communicate(timeout=60)
    assert process.returncode == EXIT_CODE, f"{process.returncode}: {printed}"


def is_frozen(process: "subprocess.Popen[str]") -> bool:
    stat = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2]
    return stat.split()[0] == "T"


async def act(verb: str, name: str, *more: str) -> None:
    """What a worker does for a request or on an access, without the HTTP around it."""
    settings = load(None, None).settings
    async with attached_deployment(settings) as tiers:
        parts = _assembled(settings, tiers)
        match verb:
            case "delete":
                await parts.streams.delete(name)
                for purger in parts.purgers:
                    await purger.open()
                await parts.recalls.recall(name)
            case "expire":
                await parts.streams.remove_expired(name)
            case "create":
                wanted = Configuration(ContentType("text/plain"), Lifetime(), closed=False)
                await parts.streams.create(name, wanted, NOTHING)
            case "fork":
                await fork(parts.streams, name, *more)
            case "create-bucket":
                await parts.buckets.create(name)
            case "delete-bucket":
                await parts.buckets.delete(name)
            case "publish":
                await publish(parts.snapshots, name, *more)
            case "compact":
                await compact(Compaction(tiers.pipe), tiers.store, name)


async def compact(compaction: Compaction, store: ObjectStore, name: str) -> list[Outcome]:
    """As a batch is done: all is begun, then merged, then committed."""
    tasks = await compaction.plan(name)
    begun = [task for task in tasks if await compaction.begin(task) == "ok"]
    for task in begun:
        await merge(store, task)
    return [await compaction.commit(task) for task in begun]


async def fork(streams: Streams, name: str, source: str) -> None:
    place, wishes = ForkPlace(source, None, 0), Wishes(None, Lifetime(), closed=False)
    await streams.fork(name, place, wishes, lambda _: NOTHING)


async def publish(snapshots: Snapshots, name: str, offset: str) -> None:
    place = parse_read_from(offset)
    assert isinstance(place, Offset)
    await snapshots.publish(await snapshots.place(name, place), "text/plain", pieces())


async def pieces() -> AsyncIterator[bytes]:
    for piece in ("first", "second"):
        yield await Sender().send(piece)


def main(when: When, method: str, words: str, nth: str, *rest: str) -> None:
    Point(when, method, words, int(nth)).inject()
    if rest[0] in ACTS:
        asyncio.run(act(*rest))
    else:
        sys.exit(cli.main(rest))


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
