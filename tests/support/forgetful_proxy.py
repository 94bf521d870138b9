"""A wire between a client and the server that loses answers: what was asked has happened."""

import threading
from collections.abc import Callable
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Self
from urllib.parse import urlsplit

Loses = Callable[[int], bool]


class ForgetfulProxy:
    """`loses` is told how many appends came before, and says whether the answer is lost."""

    def __init__(self, target: str, loses: Loses) -> None:
        self.appends = 0
        self.loses = loses
        self._lock = threading.Lock()
        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self, target))
        self._listener.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.server_port}"

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._listener.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        self._thread.join()
        self._listener.server_close()

    def is_lost(self, is_append: bool) -> bool:
        """One thread at a time, so that counting is exact."""
        with self._lock:
            self.appends += is_append
            return is_append and self.loses(self.appends - 1)


def _handler(proxy: ForgetfulProxy, target: str) -> type[BaseHTTPRequestHandler]:
    address = urlsplit(target)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            connection = HTTPConnection(address.hostname or "", address.port, timeout=30)
            connection.request(self.command, self.path, body or None, dict(self.headers))
            answer = connection.getresponse()
            content = answer.read()
            connection.close()
            if proxy.is_lost(answer.status in (200, 204) and self.command == "POST"):
                self.close_connection = True
                return
            self._answer(answer.status, answer.getheaders(), content)

        def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
            self.send_response(status)
            for name, value in headers:
                if name.lower() not in ("content-length", "connection", "date", "server"):
                    self.send_header(name, value)
            if status != 204 and self.command != "HEAD":
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        do_GET = do_HEAD = do_POST = do_PUT = _pass  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
