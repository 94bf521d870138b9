"""An export that is killed leaves nothing that readers could mistake, and the next one heals it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import dying_export
from support.redated import redate
from support.repairs import NEVER, objects_of, seal_all
from support.server import RunningServer
from support.wire import Wire

pytestmark = pytest.mark.timeout(240)

MIDNIGHT_MS = 20_000 * 86_400_000


def test_it_may_die_before_each_thing_it_does_and_again_while_it_is_healed(tmp_path: Path) -> None:
    """Three streams of two days in several files and batches."""
    with RunningServer(chunk_bytes=300, env=NEVER) as server, Wire(server.url) as wire:
        for name in ("a", "b/1", "c"):
            assert wire.ask("PUT", name, content_type="text/plain").status == 201
        states = [
            state_of(server, wire, tmp_path / "earlier", "a", "b/1"),
            state_of(server, wire, tmp_path / "then", "a", "c"),
            state_of(server, wire, tmp_path / "now", "a", "b/1", "c"),
        ]
    done = subprocess.run(
        [sys.executable, dying_export.__file__, *states],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 30


def state_of(server: RunningServer, wire: Wire, copy: Path, *names: str) -> Path:
    """What the bucket has when these streams have grown."""
    for name in names:
        for number in range(6):
            body = f"{name} {number} ".encode() * 12
            assert wire.ask("POST", name, body, content_type="text/plain").status == 204
    seal_all(server)
    redate(objects_of(server), lambda position: MIDNIGHT_MS - (position < 400))
    shutil.copytree(objects_of(server), copy)
    return copy
