"""Real edges in front of a server: the scripts and rules of `infra/edge`, as they are shipped."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from support.needs import need
from support.object_servers import free_ports
from support.server import wait_until

EDGE = Path(__file__).parents[2] / "infra" / "edge"
SECRET = "between-the-edge-and-the-server"


class Edge:
    """One of the scripts of `infra/edge`, on a port of its own; what it serves is in `settings`."""

    def __init__(
        self, script: Sequence[str], program: str, settings: Mapping[str, str], port: int = 0
    ) -> None:
        need(program)
        self.home = Path(tempfile.mkdtemp(prefix="ds-edge-"))
        self.port = port or free_ports(1)[0]
        self._command = ["sh", str(EDGE / script[0]), *script[1:]]
        self._settings = settings
        self._log_path = self.home / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def log(self) -> str:
        return self._log_path.read_text(errors="replace")

    @property
    def files(self) -> Path:
        return EDGE

    def __enter__(self) -> Self:
        place = {"EDGE_LISTEN": self.address, "EDGE_HOME": str(self.home)}
        with self._log_path.open("wb") as log:
            self._process = subprocess.Popen(
                self._command,
                env=os.environ | place | self._settings,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        try:
            wait_until(self._is_ready, what=f"{self._command[1]} to serve")
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, _: object, error: BaseException | None, *rest: object) -> None:
        if error is not None:
            print(self.log(), file=sys.stderr)
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(timeout=30)
        shutil.rmtree(self.home)

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            with urllib.request.urlopen(f"{self.url}/healthz", timeout=5):
                return True
        except urllib.error.HTTPError as answer:
            answer.close()
            return answer.code < 500
        except OSError:
            return False


def varnish(
    origins: str, *, secret: str = SECRET, bucket: str = "", straight: str = "", port: int = 0
) -> Edge:
    settings = {
        "EDGE_ORIGINS": origins,
        "EDGE_SECRET": secret,
        "EDGE_BUCKET": bucket,
        "EDGE_STRAIGHT": straight,
    }
    return Edge(["varnish.sh"], "varnishd", settings, port)


def nginx(origins: str, *, secret: str = SECRET, bucket: str = "") -> Edge:
    settings = {"EDGE_ORIGINS": origins, "EDGE_SECRET": secret, "EDGE_BUCKET": bucket}
    return Edge(["nginx.sh", "edge"], "nginx", settings)


def objects(directory: Path, port: int = 0) -> Edge:
    """The bucket of a server that keeps its objects in a directory."""
    return Edge(["nginx.sh", "objects"], "nginx", {"EDGE_OBJECTS": str(directory)}, port)
