"""The sockets that the workers accept from: one each, all on the same port.

The kernel spreads connections over them. The parent keeps every one open, so that what
waits in the queue of a worker that died is served by its successor.
"""

import asyncio
import errno
import socket
import time

from tiering.errors import Refused

BACKLOG = 4096
# After a kill -9 of the parent, its workers need a moment to notice and let go of the port.
TAKEN_PATIENCE_SECS = 2.0
POLL_SECS = 0.05

Address = tuple[socket.AddressFamily, tuple[str, int]]


async def open_listeners(host: str, port: int, count: int) -> list[socket.socket]:
    family, (ip, _) = _resolved(host, port)
    try:
        await _until_free(family, ip, port)
        first = _bound(family, ip, port)
        shared_port = first.getsockname()[1]
        return [first, *(_bound(family, ip, shared_port) for _ in range(count - 1))]
    except OSError as error:
        raise Refused(f"cannot listen on {host} port {port}: {error.strerror}") from error


def _resolved(host: str, port: int) -> Address:
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Refused(f"cannot listen on {host}: {error.strerror}") from error
    return family, (str(address[0]), port)


async def _until_free(family: socket.AddressFamily, ip: str, port: int) -> None:
    """Two servers of one user could share a port unnoticed; a plain bind finds the other."""
    deadline = time.monotonic() + TAKEN_PATIENCE_SECS
    while True:
        with socket.socket(family) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                return probe.bind((ip, port))
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                    raise
        await asyncio.sleep(POLL_SECS)


def _bound(family: socket.AddressFamily, ip: str, port: int) -> socket.socket:
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    listener.bind((ip, port))
    return listener
