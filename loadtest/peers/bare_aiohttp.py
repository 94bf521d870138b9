"""Takes a body and answers 204, with aiohttp and nothing else: bare_aiohttp.py PORT PROCESSES"""

import os
import signal
import sys

import uvloop
from aiohttp import web

OFFSET = {"Stream-Next-Offset": "0"}


async def append(request: web.Request) -> web.Response:
    await request.read()
    return web.Response(status=204, headers=OFFSET)


async def create(request: web.Request) -> web.Response:
    return web.Response(status=201, headers=OFFSET)


def serve(port: int) -> None:
    app = web.Application()
    path = "/v1/stream/{name}"
    app.add_routes([web.post(path, append), web.put(path, create)])
    uvloop.install()
    web.run_app(
        app, host="127.0.0.1", port=port, reuse_port=True, access_log=None, print=lambda _: None
    )


def main() -> None:
    port, processes = map(int, sys.argv[1:])
    children = []
    for _ in range(processes - 1):
        if not (child := os.fork()):
            serve(port)
            os._exit(0)
        children.append(child)
    print(f"listening on http://127.0.0.1:{port}", flush=True)
    serve(port)
    for child in children:
        os.kill(child, signal.SIGTERM)


if __name__ == "__main__":
    main()
