"""The server, its private Redis and its workers, each ended in every way they can be."""

import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import msgspec
import pytest
import redis
from support.server import RunningServer, is_alive, wait_until

from ds_server.embedded.engines import Engine, installed


def ask(method: str, url: str, body: bytes | None = None) -> bytes:
    request = urllib.request.Request(url, body, {"Content-Type": "text/plain"}, method=method)
    with urllib.request.urlopen(request, timeout=30) as answer:
        content: bytes = answer.read()
    return content


def stream(server: RunningServer) -> str:
    return f"{server.url}/v1/stream/kept"


def write(server: RunningServer, body: bytes) -> None:
    ask("PUT", stream(server))
    ask("POST", stream(server), body)


def read(server: RunningServer) -> bytes:
    return ask("GET", f"{stream(server)}?offset=-1")


def serves(server: RunningServer, body: bytes) -> bool:
    try:
        return read(server) == body
    except OSError:
        return False


def change_record(server: RunningServer, name: str, version: str) -> None:
    (server.data_dir / "engine.json").write_bytes(msgspec.json.encode(Engine(name, version)))


def recorded(server: RunningServer) -> Engine:
    return msgspec.json.decode((server.data_dir / "engine.json").read_bytes(), type=Engine)


@contextmanager
def redis_on_a_port(*arguments: str) -> Iterator[int]:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    command = [next(installed()).binary, "--port", str(port), "--save", "", *arguments]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        with closing(redis.Redis(port=port)) as client:
            wait_until(lambda: answers(client), what="the Redis to answer")
        yield port
    finally:
        process.terminate()
        process.wait()


def answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.fixture
def server() -> Iterator[RunningServer]:
    with RunningServer() as running:
        yield running


@pytest.fixture
def stopped(server: RunningServer) -> RunningServer:
    """It has served, and what it wrote is there."""
    write(server, b"before")
    assert server.stop() == 0
    return server


def test_started_again_everything_is_there(stopped: RunningServer) -> None:
    stopped.start()
    assert read(stopped) == b"before"


def test_a_second_server_on_the_directory_is_refused(server: RunningServer) -> None:
    with closing(RunningServer(data_dir=server.data_dir)) as second:
        code, printed = second.expect_refusal()
    assert code == 1
    assert printed == (
        f"ds-server: data directory {server.data_dir} is in use by another ds-server "
        f"(pid {server.pid})\n"
    )
    write(server, b"undisturbed")


def test_the_redis_of_a_killed_server_is_adopted(server: RunningServer) -> None:
    write(server, b"before")
    before = server.redis_pid()
    server.kill()
    server.start()
    assert server.redis_pid() == before
    assert read(server) == b"before"


def test_an_adopted_redis_ends_with_its_server(server: RunningServer) -> None:
    pid = server.redis_pid()
    server.kill()
    server.start()
    assert server.stop() == 0
    assert not is_alive(pid)


def test_an_adopted_redis_is_made_durable_again(server: RunningServer) -> None:
    server.kill()
    with closing(server.redis()) as client:
        client.config_set("appendfsync", "no")
    server.start()
    with closing(server.redis()) as client:
        assert client.config_get("appendfsync") == {"appendfsync": "always"}


def test_an_adopted_redis_of_another_engine_is_refused(server: RunningServer) -> None:
    pid = server.redis_pid()
    server.kill()
    change_record(server, "valkey", "99.0.0")
    code, printed = server.expect_refusal()
    assert code == 1
    assert "was written by Valkey 99.0.0" in printed
    assert is_alive(pid)


@pytest.mark.parametrize(("name", "version"), [("redis", "7.0.0"), ("valkey", "99.0.0")])
def test_another_or_an_older_engine_is_refused(
    stopped: RunningServer, name: str, version: str
) -> None:
    change_record(stopped, name, version)
    code, printed = stopped.expect_refusal()
    assert code == 1
    assert f"{stopped.data_dir} was written by {name.capitalize()} {version}" in printed
    assert printed.count("\n") == 1


def test_a_newer_engine_is_accepted_and_recorded(stopped: RunningServer) -> None:
    now = recorded(stopped)
    change_record(stopped, now.name, "1.0.0")
    stopped.start()
    assert read(stopped) == b"before"
    assert recorded(stopped) == now


def test_a_damaged_append_only_file_is_explained(stopped: RunningServer) -> None:
    for file in (stopped.data_dir / "redis" / "appendonlydir").glob("*.incr.aof"):
        file.write_bytes(b"this is not what Redis wrote\n")
    code, printed = stopped.expect_refusal()
    assert code == 1
    assert "redis.log" in printed
    assert "Bad file format" in printed
    assert "Traceback" not in printed


def test_a_killed_redis_is_started_again(server: RunningServer) -> None:
    write(server, b"before")
    before = server.redis_pid()
    os.kill(before, signal.SIGKILL)
    wait_until(lambda: serves(server, b"before"), what="the stream to be served again")
    assert server.redis_pid() != before


def test_a_killed_redis_that_was_adopted_is_started_again(server: RunningServer) -> None:
    write(server, b"before")
    server.kill()
    server.start()
    os.kill(server.redis_pid(), signal.SIGKILL)
    wait_until(lambda: serves(server, b"before"), what="the stream to be served again")
    assert server.stop() == 0


def test_server_and_redis_killed_together_lose_nothing(server: RunningServer) -> None:
    write(server, b"before")
    redis_pid = server.redis_pid()
    server.kill()
    os.kill(redis_pid, signal.SIGKILL)
    server.start()
    assert read(server) == b"before"


def test_the_private_redis_syncs_before_it_answers_and_never_evicts(server: RunningServer) -> None:
    with closing(server.redis()) as client:
        settings = client.config_get("*")
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "always"
    assert settings["no-appendfsync-on-rewrite"] == "no"
    assert settings["maxmemory-policy"] == "noeviction"
    assert settings["port"] == "0"


def test_a_redis_that_evicts_is_refused() -> None:
    with redis_on_a_port("--maxmemory-policy", "allkeys-lru") as port:
        external = {"DS_REDIS__URL": f"redis://127.0.0.1:{port}"}
        with closing(RunningServer(env=external)) as server:
            code, printed = server.expect_refusal()
    assert code == 1
    assert "allkeys-lru" in printed
    assert printed.count("\n") == 1


def test_an_external_redis_is_used_and_left_alone() -> None:
    with redis_on_a_port() as port:
        external = {"DS_REDIS__URL": f"redis://127.0.0.1:{port}"}
        with RunningServer(env=external) as server:
            write(server, b"outside")
            assert "a crash of Redis loses them" in server.log()
            assert [entry.name for entry in server.data_dir.iterdir()] == ["objects"]
        with closing(redis.Redis(port=port)) as client:
            assert client.dbsize()


def test_an_external_redis_that_is_not_there_is_explained() -> None:
    nowhere = {"DS_REDIS__URL": "redis://user:secret@127.0.0.1:1", "DS_REDIS__TIMEOUT_SECS": "0.1"}
    with closing(RunningServer(env=nowhere)) as server:
        code, printed = server.expect_refusal()
    assert code == 1
    assert printed.count("\n") == 1
    assert "secret" not in printed


@pytest.mark.parametrize("name", ["d" * 120, "spaces % and # and ?"], ids=["long", "odd"])
def test_any_data_directory_will_do(tmp_path: Path, name: str) -> None:
    with RunningServer(data_dir=tmp_path / name) as server:
        write(server, b"before")
        server.kill()
        server.start()
        assert read(server) == b"before"
        place = server.redis_socket
        assert server.stop() == 0
        assert not place.exists()
        assert place.parent == server.data_dir or not place.parent.exists()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_everything(number: signal.Signals) -> None:
    with RunningServer(workers=2) as server:
        started = [server.pid, server.redis_pid(), *server.worker_pids()]
        os.kill(server.pid, number)
        assert server.stop() == 0
        assert len(started) == 4
        assert not [pid for pid in started if is_alive(pid)]


def test_the_workers_of_a_killed_server_end(server: RunningServer) -> None:
    workers = server.worker_pids()
    server.kill()
    wait_until(lambda: not any(map(is_alive, workers)), what="the workers to end")


def test_a_killed_worker_is_replaced(server: RunningServer) -> None:
    write(server, b"before")
    [before] = server.worker_pids()
    os.kill(before, signal.SIGKILL)
    assert read(server) == b"before"
    [after] = server.worker_pids()
    assert after != before


def test_a_hang_up_replaces_the_workers_one_by_one() -> None:
    with RunningServer(workers=2) as server:
        write(server, b"before")
        before = set(server.worker_pids())
        os.kill(server.pid, signal.SIGHUP)
        while before & set(server.worker_pids()):
            assert read(server) == b"before"
        wait_until(lambda: len(server.worker_pids()) == 2, what="two new workers")


def test_port_0_is_a_free_port_and_named(server: RunningServer) -> None:
    assert server.port != 0
    assert f"listening on http://localhost:{server.port}" in server.log()


def test_a_port_in_use_is_refused_even_to_the_same_user(server: RunningServer) -> None:
    with closing(RunningServer(port=server.port)) as second:
        code, printed = second.expect_refusal()
    assert code == 1
    assert printed == (
        f"ds-server: cannot listen on 127.0.0.1 port {server.port}: Address already in use\n"
    )


def test_the_parent_stays_small() -> None:
    source = "import ds_server.cli, sys; print({'aiohttp', 'uvloop'} & set(sys.modules))"
    printed = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True)
    assert printed.stdout == "set()\n"
