"""A cache that can be told to forget, and remembers what it was told."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self


class PurgeSink:
    """Listens from entering to leaving; `setting` is what a server must know of it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.tags: list[str] = []

    @property
    def setting(self) -> dict[str, str]:
        return {"DS_PURGE__URL": f"http://127.0.0.1:{self.port}/{{tag}}"}

    def __enter__(self) -> Self:
        tags = self.tags

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                tags.append(self.path.removeprefix("/"))
                self.send_response(204)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
