"""TLS directly on the server, with a certificate that only the chain leads to."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest
from support.certificates import Chain
from support.client import TEXT, Stream, unique_name
from support.connection import Connection
from support.server import RunningServer


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    return Chain.make(tmp_path_factory.mktemp("chain"))


@pytest.fixture(scope="module")
def server(chain: Chain) -> Iterator[RunningServer]:
    with RunningServer(workers=2, long_poll_timeout_secs=30, env=chain.settings()) as running:
        yield running


@pytest.fixture
async def http(chain: Chain) -> AsyncIterator[aiohttp.ClientSession]:
    connector = aiohttp.TCPConnector(ssl=chain.client())
    async with aiohttp.ClientSession(connector=connector) as session:
        yield session
    # The session does not wait for the farewells of TLS; the loop must not end before them.
    await asyncio.sleep(0.1)


@pytest.fixture
def stream(server: RunningServer, http: aiohttp.ClientSession) -> Stream:
    return Stream(http, f"{server.url}/v1/stream/{unique_name()}", TEXT)


async def test_a_stream_is_written_and_read(stream: Stream) -> None:
    created = await stream.create(b"first ")
    assert created.status == 201
    assert created["Location"] == stream.url
    assert (await stream.append(b"second")).status == 204
    assert (await stream.read()).body == b"first second"


async def test_a_large_body_passes_both_ways(stream: Stream) -> None:
    body = b"0123456789abcdef" * 2**18
    await stream.create(body)
    answers = await stream.read_to_the_tail()
    assert b"".join(answer.body for answer in answers) == body


async def test_a_long_poll_is_answered_by_an_append(stream: Stream) -> None:
    tail = (await stream.create()).next_offset
    polling = asyncio.create_task(stream.long_poll(tail))
    await stream.append(b"news")
    polled = await polling
    assert polled.status == 200
    assert polled.body == b"news"


async def test_events_are_delivered(stream: Stream) -> None:
    await stream.create(b"old")
    async with stream.follow("-1") as following:
        assert (await following.until_caught_up())[0].data == "old"
        await stream.append(b"new")
        assert (await following.until_caught_up())[0].data == "new"


async def test_the_banner_says_https(server: RunningServer) -> None:
    assert f"listening on https://localhost:{server.port}" in server.log()


def offered_protocol(server: RunningServer, client: ssl.SSLContext) -> str | None:
    """What is agreed on, once the server has proved who it is."""
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as plain,
        client.wrap_socket(plain, server_hostname="127.0.0.1") as encrypted,
    ):
        return encrypted.selected_alpn_protocol()


def test_only_the_protocol_that_is_spoken_is_offered(server: RunningServer, chain: Chain) -> None:
    client = chain.client()
    client.set_alpn_protocols(["h2", "http/1.1"])
    assert offered_protocol(server, client) == "http/1.1"


def test_a_client_that_does_not_know_the_root_is_not_fooled(
    server: RunningServer, tmp_path: Path
) -> None:
    stranger = Chain.make(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError):
        offered_protocol(server, stranger.client())


async def test_a_client_without_tls_gets_nothing_and_disturbs_nobody(
    server: RunningServer, stream: Stream
) -> None:
    connection = await Connection.open(server.url)
    with pytest.raises(ConnectionError):
        await connection.ask("GET", "/healthz")
    connection.close()
    assert (await stream.create()).status == 201


def refusal(settings: dict[str, str]) -> tuple[int, str]:
    with closing(RunningServer(env=settings)) as server:
        code, printed = server.expect_refusal()
    assert printed.count("\n") == 1, printed
    assert "Traceback" not in printed
    return code, printed


@pytest.mark.parametrize("missing", ["DS_TLS__CERT_PATH", "DS_TLS__KEY_PATH"])
def test_a_missing_file_is_named(chain: Chain, tmp_path: Path, missing: str) -> None:
    nowhere = str(tmp_path / "nowhere.pem")
    code, printed = refusal(chain.settings() | {missing: nowhere})
    assert code == 1
    assert nowhere in printed
    assert "No such file" in printed


def test_the_key_of_another_certificate_is_refused(chain: Chain, tmp_path: Path) -> None:
    other = Chain.make(tmp_path)
    code, printed = refusal(chain.settings() | {"DS_TLS__KEY_PATH": str(other.key)})
    assert code == 1
    assert str(other.key) in printed
    assert "mismatch" in printed


@pytest.mark.parametrize("broken", ["DS_TLS__CERT_PATH", "DS_TLS__KEY_PATH"])
def test_a_file_that_is_no_pem_is_refused(chain: Chain, tmp_path: Path, broken: str) -> None:
    rubbish = tmp_path / "rubbish.pem"
    rubbish.write_text("this is not a certificate\n")
    code, printed = refusal(chain.settings() | {broken: str(rubbish)})
    assert code == 1
    assert str(rubbish) in printed


def test_a_key_that_needs_a_password_is_refused_without_asking_for_it(
    chain: Chain, tmp_path: Path
) -> None:
    locked = tmp_path / "locked.pem"
    chain.lock_key(locked)
    code, printed = refusal(chain.settings() | {"DS_TLS__KEY_PATH": str(locked)})
    assert code == 1
    assert str(locked) in printed
    assert "encrypted" in printed


@pytest.mark.parametrize("given", ["DS_TLS__CERT_PATH", "DS_TLS__KEY_PATH"])
def test_certificate_and_key_go_together(chain: Chain, given: str) -> None:
    code, printed = refusal({given: chain.settings()[given]})
    assert code == 2
    assert "tls.cert_path and tls.key_path must be set together" in printed
