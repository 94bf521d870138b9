"""Every offset that was ever handed out gives the same bytes: before, during and after sealing."""

import random
from collections.abc import Iterator

import pytest
from support.client import unique_name
from support.model import JSON, ModelStream, parse_token, token
from support.server import RunningServer, wait_until
from support.wire import Wire

BYTES = "application/octet-stream"
CHUNKS = 200


@pytest.fixture(scope="module", params=[1024, 65536])
def grid(request: pytest.FixtureRequest) -> int:
    size: int = request.param
    return size


@pytest.fixture(scope="module")
def sealing_server(grid: int) -> Iterator[RunningServer]:
    """Every append goes to object storage at once."""
    env = {"DS_TIERING__SEAL_AGE_SECS": "0", "DS_CACHE__CHUNK_BYTES": str(2**20)}
    with RunningServer(workers=2, chunk_bytes=grid, env=env) as server:
        yield server


@pytest.fixture
def wire(sealing_server: RunningServer) -> Iterator[Wire]:
    wire = Wire(sealing_server.url)
    yield wire
    wire.close()


def parts(content_type: str, grid: int, dice: random.Random) -> list[bytes]:
    """One append: about half a chunk, sometimes a batch that passes several grid lines."""
    if content_type != JSON:
        return [dice.randbytes(dice.randint(1, grid))]
    count = dice.choice([1, 1, 2, 7])
    return [b'"%b"' % (b"x" * dice.randint(1, grid // 2)) for _ in range(count)]


def check(wire: Wire, name: str, model: ModelStream, positions: list[int]) -> None:
    for position in positions:
        expected = model.read(position)
        answer = wire.ask("GET", name, offset=token(model.log, position))
        assert answer.status == 200
        assert answer.body == expected.body
        assert answer["Stream-Next-Offset"] == token(model.log, expected.end)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("content_type", [JSON, BYTES])
def test_all_offsets_read_the_same_while_the_stream_moves_to_object_storage(
    sealing_server: RunningServer, wire: Wire, grid: int, content_type: str
) -> None:
    dice, name = random.Random(grid), unique_name()
    created = wire.ask("PUT", name, content_type=content_type)
    model = ModelStream(content_type, grid, parse_token(created["Stream-Next-Offset"] or "")[0])
    offsets = [0]
    while model.tail < CHUNKS * grid:
        appended = parts(content_type, grid, dice)
        model.add(appended)
        body = b"[" + b",".join(appended) + b"]" if content_type == JSON else appended[0]
        answer = wire.ask("POST", name, body, content_type=content_type)
        assert answer["Stream-Next-Offset"] == model.tail_token
        offsets.append(model.tail)
        check(wire, name, model, [offsets[-2], dice.choice(offsets)])

    check(wire, name, model, offsets)
    wait_until(lambda: everything_is_sealed(sealing_server, name), what="everything to be sealed")
    check(wire, name, model, offsets)
    if content_type == JSON:
        inside = next(end - 1 for end in model.ends if end > 3)
        assert wire.ask("GET", name, offset=token(model.log, inside)).status == 400


def everything_is_sealed(server: RunningServer, name: str) -> bool:
    with server.redis() as redis:
        sealed, tail = redis.hmget(f"ds:{{{name}}}:meta", "sealed", "tail")
    return sealed == tail
