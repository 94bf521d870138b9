"""An acknowledged append is on disk: seen in the system calls of the private Redis.

A killed process leaves what it wrote in the page cache, so no crash test can show this.
"""

import asyncio
import re
import subprocess
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from support.client import TEXT, Stream, unique_name
from support.needs import lack, need
from support.server import RunningServer

READS = ("read", "recvfrom", "readv", "recvmsg")
WRITES = ("write", "writev", "sendto", "sendmsg", "pwrite64")
SYNCS = ("fsync", "fdatasync")

CALL = re.compile(r"([0-9]+) +([a-z0-9]+)\([0-9]+<([^>]*)>(.*)")
REST = re.compile(r"([0-9]+) +<\.\.\. ([a-z0-9]+) resumed>(.*)")
UNFINISHED = "<unfinished ...>"


@dataclass
class Call:
    """One system call; `begun` and `done` are the lines of the trace."""

    name: str
    file: str
    text: str
    begun: int
    done: int

    @property
    def is_on_socket(self) -> bool:
        return "socket:" in self.file

    @property
    def is_on_log(self) -> bool:
        return self.file.endswith(".incr.aof")


@dataclass
class Trace:
    path: Path
    calls: list[Call] = field(default_factory=list)

    def parse(self) -> None:
        unfinished: dict[tuple[str, str], Call] = {}
        for number, line in enumerate(self.path.read_text().splitlines()):
            if begin := CALL.match(line):
                thread, name, file, text = begin.groups()
                call = Call(name, file, text, number, number)
                self.calls.append(call)
                if text.endswith(UNFINISHED):
                    unfinished[thread, name] = call
            elif (rest := REST.match(line)) and (rest[1], rest[2]) in unfinished:
                call = unfinished.pop((rest[1], rest[2]))
                call.text += rest[3]
                call.done = number

    def socket_calls(self, names: tuple[str, ...], text: str) -> list[Call]:
        return [
            call
            for call in self.calls
            if call.is_on_socket and call.name in names and text in call.text
        ]

    def first_on_log(self, names: tuple[str, ...], text: str, after: Call) -> Call:
        for call in self.calls:
            is_wanted = call.is_on_log and call.name in names and text in call.text
            if is_wanted and call.begun > after.done:
                return call
        raise AssertionError(f"no {' or '.join(names)} of the append-only file after {after}")


@contextmanager
def traced(pid: int, folder: Path) -> Iterator[Trace]:
    """The calls are there when the block has ended."""
    trace = Trace(folder / "trace")
    wanted = f"trace={','.join(READS + WRITES + SYNCS)}"
    options = f"-f -y -s 100000 -e {wanted} -p {pid}".split()
    strace = subprocess.Popen(
        [need("strace"), *options, "-o", trace.path],
        stderr=subprocess.PIPE,
        text=True,
    )
    assert strace.stderr is not None
    try:
        said = strace.stderr.readline()
        if "attached" not in said:
            lack(f"strace may not look into a process here: {said.strip()}")
        yield trace
    finally:
        strace.terminate()
        strace.communicate()
    trace.parse()


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with RunningServer() as running:
        yield running


@pytest.fixture
def stream(server: RunningServer, http: aiohttp.ClientSession) -> Stream:
    return Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)


def marked(n: int) -> bytes:
    """Marked at both ends, because a read of Redis may end inside one mark.

    Its length is odd, so that no other number in the trace looks like the tail it makes.
    """
    mark = f"<append {n:04}>".encode()
    return mark + b"x" * 1001 + mark


def assert_synced_before_told(trace: Trace, n: int, told: Collection[int]) -> None:
    """`told`: where the append ended, or the last of those that may have travelled with it."""
    marker = f"<append {n:04}>"
    arrival = trace.socket_calls(READS, marker)[0]
    stored = trace.first_on_log(WRITES, marker, after=arrival)
    synced = trace.first_on_log(SYNCS, ") = 0", after=stored)
    answers = [
        call
        for position in told
        for call in trace.socket_calls(WRITES, rf"\r\n{position}\r\n")
        if call.file == arrival.file and call.begun > arrival.done
    ]
    wake_ups = trace.socket_calls(WRITES, marker)
    assert answers
    assert min(call.begun for call in (*answers, *wake_ups)) > synced.done, marker


async def test_an_append_is_synced_between_its_arrival_and_its_answer(
    server: RunningServer, stream: Stream, tmp_path: Path
) -> None:
    await stream.create()
    with traced(server.redis_pid(), tmp_path) as trace:
        answers = [await stream.append(marked(n)) for n in range(10)]
    for n, answer in enumerate(answers):
        assert answer.status == 204
        assert_synced_before_told(trace, n, [answer.position])
    assert len([call for call in trace.calls if call.name in SYNCS and call.is_on_log]) >= 10


async def test_appends_that_share_a_sync_all_wait_for_it(
    server: RunningServer, stream: Stream, tmp_path: Path
) -> None:
    await stream.create()
    with traced(server.redis_pid(), tmp_path) as trace:
        answers = await asyncio.gather(*(stream.append(marked(n)) for n in range(64)))
    told = [answer.position for answer in answers]
    for n, answer in enumerate(answers):
        assert answer.status == 204
        assert_synced_before_told(trace, n, [end for end in told if end >= answer.position])


async def test_a_follower_is_told_only_what_is_synced(
    server: RunningServer, stream: Stream, tmp_path: Path
) -> None:
    await stream.create()
    async with stream.follow("-1") as following:
        await following.until_caught_up()
        with traced(server.redis_pid(), tmp_path) as trace:
            answers = [await stream.append(marked(n)) for n in range(5)]
            await following.until(lambda event: "<append 0004>" in event.data)
    for n, answer in enumerate(answers):
        assert_synced_before_told(trace, n, [answer.position])
        assert trace.socket_calls(WRITES, f"<append {n:04}>"), "the wake-up carries the data"
