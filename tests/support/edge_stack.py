"""A server with edges in front and a bucket behind, and what reached the server."""

import contextlib
import json
import re
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import aiohttp
from support.client import JSON, Answer, Stream, eventually, unique_name
from support.edge import SECRET, Edge, nginx, objects, varnish
from support.object_servers import ObjectServer, free_ports
from support.server import RunningServer

READS = re.compile(r'^ds_reads_total\{kind="(\w+)"\} ([0-9.e+]+)$', re.MULTILINE)
CHUNK_BYTES = 1024
CHUNKS = 8
OPEN = "open"
"""What the names of streams begin with whose chunks anyone may read from the bucket."""


Damage = Callable[[bytes], bytes | None]


class Objects(Protocol):
    """What the server has stored, behind its back."""

    def damaged(self, key: str, damage: Damage) -> contextlib.AbstractContextManager[bytes]:
        """An object is not what it was, for a while; None removes it."""


class Files:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextlib.contextmanager
    def damaged(self, key: str, damage: Damage) -> Iterator[bytes]:
        path = self._folder / key
        whole = path.read_bytes()
        wrong = damage(whole)
        path.unlink()
        if wrong is not None:
            path.write_bytes(wrong)
        yield whole
        path.write_bytes(whole)


class Bucket:
    def __init__(self, store: ObjectServer, prefix: str) -> None:
        self._store = store
        self._prefix = prefix

    @contextlib.contextmanager
    def damaged(self, key: str, damage: Damage) -> Iterator[bytes]:
        place = {"Bucket": self._store.bucket, "Key": self._prefix + key}
        client = self._store.client
        found = client.get_object(**place)
        whole, metadata = found["Body"].read(), found["Metadata"]
        wrong = damage(whole)
        if wrong is None:
            client.delete_object(**place)
        else:
            client.put_object(**place, Body=wrong, Metadata=metadata)
        yield whole
        client.put_object(**place, Body=whole, Metadata=metadata)


@dataclass(frozen=True)
class Stack:
    server: RunningServer
    bucket: str
    objects: Objects
    edges: Mapping[str, Edge]

    def reads(self) -> Counter[str]:
        """How many reads the server has answered so far, by kind."""
        with urllib.request.urlopen(f"{self.server.url}/metrics") as answer:
            text = answer.read().decode()
        return Counter({kind: int(float(count)) for kind, count in READS.findall(text)})

    async def written(self, http: aiohttp.ClientSession, name: str, kind: str = JSON) -> bytes:
        """A closed stream of CHUNKS chunks, all of them stored; its body when read in one piece."""
        stream = Stream(http, f"{self.server.url}/v1/stream/{name}", kind)
        await stream.create()
        bodies = [b'"%0*d"' % (CHUNK_BYTES // 2 - 2, number) for number in range(2 * CHUNKS)]
        for body in bodies:
            await stream.append(body)
        await stream.close()
        await eventually(lambda: is_stored(stream), bool)
        return b",".join(bodies) if kind == JSON else b"".join(bodies)


async def is_stored(stream: Stream) -> bool:
    """Whether every chunk is an object by now: the server says so to an edge."""
    offset: str | None = None
    while True:
        answer = await stream.read(offset, ds_edge_secret=SECRET)
        if answer["DS-Object"] is None:
            return False
        if answer["Stream-Up-To-Date"]:
            return True
        offset = answer.next_offset


def name_for(edge: str, rest: str = "") -> str:
    """Of a stream that this edge can read; where it has signed URLs, nobody else can."""
    return unique_name(f"{OPEN if edge == 'straight' else 'closed'}{rest}")


def joined(answers: list[Answer], kind: str = JSON) -> bytes:
    """What a reader has of a stream after these answers."""
    if kind == JSON:
        return b",".join(answer.body[1:-1] for answer in answers if len(answer.body) > 2)
    return b"".join(answer.body for answer in answers)


def _server(port: int, purged: int, env: Mapping[str, str], chunk_bytes: int) -> RunningServer:
    return RunningServer(
        workers=2,
        port=port,
        long_poll_timeout_secs=3,
        chunk_bytes=chunk_bytes,
        env={
            "DS_EDGE__SECRET": SECRET,
            "DS_EDGE__VARNISH": f"http://127.0.0.1:{purged}",
            "DS_SERVER__SSE_RECONNECT_INTERVAL_SECS": "7",
            **env,
        },
    )


@contextlib.contextmanager
def embedded(
    *names: str, env: Mapping[str, str] | None = None, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Stack]:
    """Objects in a directory; `varnish` and `nginx` hand off, `lonely` finds no bucket."""
    port, edge_port, bucket_port = free_ports(3)
    origin, bucket = f"127.0.0.1:{port}", f"127.0.0.1:{bucket_port}"
    with contextlib.ExitStack() as running:
        server = running.enter_context(_server(port, edge_port, env or {}, chunk_bytes))
        running.enter_context(objects(Path(server.data_dir) / "objects", bucket_port))
        makers = {
            "varnish": lambda: varnish(origin, bucket=bucket, port=edge_port),
            "nginx": lambda: nginx(origin, bucket=bucket),
            "lonely": lambda: varnish(origin, bucket=f"127.0.0.1:{free_ports(1)[0]}"),
        }
        edges = {name: running.enter_context(makers[name]()) for name in names}
        yield Stack(server, bucket, Files(server.data_dir / "objects"), edges)


@contextlib.contextmanager
def on_a_bucket(store: ObjectServer) -> Iterator[Stack]:
    """Objects in a bucket; `straight` reads open streams, `varnish` and `nginx` get signed URLs."""
    allow_anyone_to_read_open_streams(store)
    port, edge_port = free_ports(2)
    origin, bucket = f"127.0.0.1:{port}", store.endpoint.removeprefix("http://")
    place = {"DS_OBJECTS__URL": f"s3://{store.bucket}/here", "DS_OBJECTS__ENDPOINT": store.endpoint}
    with contextlib.ExitStack() as running:
        env = {**store.environment, **place}
        server = running.enter_context(_server(port, edge_port, env, CHUNK_BYTES))
        straight = f"/{store.bucket}/here/"
        edges = {
            "straight": varnish(origin, bucket=bucket, straight=straight, port=edge_port),
            "varnish": varnish(origin, bucket=bucket),
            "nginx": nginx(origin, bucket=bucket),
        }
        for edge in edges.values():
            running.enter_context(edge)
        yield Stack(server, bucket, Bucket(store, "here/"), edges)


def allow_anyone_to_read_open_streams(store: ObjectServer) -> None:
    statement = {
        "Effect": "Allow",
        "Principal": "*",
        "Action": ["s3:GetObject"],
        "Resource": [f"arn:aws:s3:::{store.bucket}/here/chunks/{OPEN}*"],
    }
    policy = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
    store.client.put_bucket_policy(Bucket=store.bucket, Policy=policy)
