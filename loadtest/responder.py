"""Answers every request with 204 and does nothing else: what a generator can reach at most."""

import asyncio
import sys
from typing import cast

import uvloop

ANSWER = b"HTTP/1.1 204 No Content\r\nStream-Next-Offset: 0\r\n\r\n"


class Responder(asyncio.Protocol):
    """Takes what arrives at once for one request, as the generators send it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER)


async def respond(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Responder, "127.0.0.1", port)
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(respond(int(sys.argv[1])))
