"""`ds-spark` with a server's settings: as cron runs it, and without a process of its own."""

import contextlib
import io
import os
import subprocess
import sys
from pathlib import Path
from unittest.mock import patch

from support.quick_spark import QUICK
from support.server import RunningServer

from spark import cli

COMMAND = Path(sys.executable).parent / "ds-spark"
TIMEOUT_SECS = 200


def command(
    server: RunningServer, *arguments: str, **env: str
) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [COMMAND, *arguments],
        env=server.environment | QUICK | env,
        cwd=server.home,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECS,
    )


def ask(server: RunningServer, *arguments: str) -> tuple[int, str, str]:
    """Exit code, output and errors, for what does not come as far as Spark."""
    printed, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, server.environment, clear=True),
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(errors),
    ):
        try:
            code = cli.main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, printed.getvalue(), errors.getvalue()
