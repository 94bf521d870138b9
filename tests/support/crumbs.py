"""Streams that consist of parts, for compactions."""

from support.repairs import keys_in, seal_all
from support.server import RunningServer
from support.wire import Wire

CHUNK = 2000
ENV = {
    "DS_TIERING__SEAL_AGE_SECS": "86400",
    "DS_TIERING__DELETE_GRACE_SECS": "0",
    "DS_TIERING__SWEEP_SECS": "1",
}


def parts(server: RunningServer) -> list[str]:
    return [key for key in keys_in(server) if key.startswith("parts/")]


def in_crumbs(server: RunningServer, wires: dict[str, Wire], rounds: int = 8) -> None:
    """A round is a part or two of each stream; about seven complete a chunk."""
    for name, wire in wires.items():
        assert wire.ask("PUT", name, content_type="text/plain").status == 201
    for number in range(rounds):
        for name, wire in wires.items():
            body = f"{name} {number} ".encode() * 30
            assert wire.ask("POST", name, body, content_type="text/plain").status == 204
        seal_all(server)
