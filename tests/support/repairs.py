"""Losing the hot tier on purpose, and the commands that bring it back and prove it."""

import contextlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support.server import RunningServer
from support.wire import Answer, Wire

from ds_server import cli

NEVER = {"DS_TIERING__SEAL_AGE_SECS": "86400", "DS_TIERING__SWEEP_SECS": "3600"}
"""Nothing is sealed but complete chunks and closed streams, until it is asked for."""


def objects_of(server: RunningServer) -> Path:
    return server.data_dir / "objects"


def keys_in(server: RunningServer, text: str = "") -> list[str]:
    """The objects whose key has the text in it."""
    folder = objects_of(server)
    files = (Path(place) / name for place, _, names in os.walk(folder) for name in names)
    keys = (str(path.relative_to(folder)) for path in files if "^" not in str(path))
    return sorted(key for key in keys if text in key)


def lose_redis(server: RunningServer) -> None:
    """As if the disk of the hot tier were gone; the server must not be running."""
    shutil.rmtree(server.data_dir / "redis")
    (server.data_dir / "engine.json").unlink()


def command(server: RunningServer, *arguments: str) -> tuple[int, str]:
    """As `server.command`, but without a process of its own: that is half a second each."""
    printed = io.StringIO()
    with (
        patch.dict(os.environ, server.environment, clear=True),
        contextlib.chdir(server.home),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        return cli.main(arguments), printed.getvalue()


def seal_all(server: RunningServer) -> None:
    code, printed = command(server, "seal", "--all")
    assert code == 0, printed


def sweep(server: RunningServer) -> None:
    code, printed = command(server, "sweep")
    assert code == 0, printed


def recover(server: RunningServer, exit_code: int = 0) -> dict[str, Any]:
    code, printed = command(server, "recover", "--json")
    assert code == exit_code, printed
    return dict(json.loads(printed))


def recover_what_there_is(server: RunningServer) -> None:
    """Whether or not something is known to be missing."""
    code, printed = command(server, "recover", "--json")
    assert code in (0, 3), printed
    assert json.loads(printed)["damaged"] == []


def lose_and_recover(server: RunningServer, wire: Wire, exit_code: int = 0) -> dict[str, Any]:
    """A running server loses its Redis and runs again on what the bucket gave back."""
    stop(server, wire)
    lose_redis(server)
    report = recover(server, exit_code)
    server.start()
    return report


def stop(server: RunningServer, wire: Wire) -> None:
    """Its connections are opened anew when they are used again."""
    wire.close()
    assert server.stop() == 0


def fsck(server: RunningServer, *options: str) -> dict[str, Any]:
    code, printed = command(server, "fsck", "--json", *options)
    report = dict(json.loads(printed))
    assert code == (3 if report["problems"] else 0)
    return report


def assert_sound(server: RunningServer) -> None:
    problems = fsck(server)["problems"]
    assert problems == [], problems


def produce(wire: Wire, name: str, body: bytes, seq: int, content_type: str) -> Answer:
    return wire.ask(
        "POST",
        name,
        body,
        content_type=content_type,
        producer_id="p",
        producer_epoch="0",
        producer_seq=str(seq),
    )
