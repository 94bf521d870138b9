"""Shows the streams of one bucket under `/v1/stream/`, for clients that know only that surface."""

import io
import re
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self
from urllib.parse import quote, unquote

import aiohttp
from aiohttp import web
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

ROOT: Final = "/v1/stream/"
OF_THE_CONNECTION: Final = ("Connection", "Keep-Alive", "Transfer-Encoding", "Date", "Server")
REFERENCES: Final = ("Location", "Stream-Forked-From")
LARGEST_BODY: Final = 1 << 26
MUCH: Final = 1 << 20


class BucketProxy:
    """A slash is `~1` on the other side, and `~` is `~0`: ids have no slashes."""

    def __init__(self, server: str, bucket: str) -> None:
        self._server = server
        self._bucket = bucket

    async def __aenter__(self) -> Self:
        self._client = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        async with self._client.put(f"{self._server}/ds/{self._bucket}") as made:
            assert made.status == 201
        app = web.Application(client_max_size=LARGEST_BODY)
        app.router.add_route("*", f"{ROOT}{{path:.*}}", self._pass)
        self._runner = web.AppRunner(
            app, handler_cancellation=True, access_log=None, shutdown_timeout=1
        )
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._runner.cleanup()
        await self._client.close()

    @property
    def url(self) -> str:
        host, port = self._runner.addresses[0][:2]
        return f"http://{host}:{port}"

    def inside(self, path: str) -> str:
        """From the path that a client knows to the one that the server knows."""
        name = unquote(path.removeprefix(ROOT), errors="surrogateescape")
        local = name.replace("~", "~0").replace("/", "~1")
        return f"/ds/{self._bucket}/{quote(local, safe='~', errors='surrogateescape')}"

    def outside(self, reference: str) -> str:
        """The same back, in a path or in a whole address."""
        place = re.compile(rf"/ds/{self._bucket}/(.*)", re.DOTALL)
        return place.sub(lambda found: ROOT + _with_slashes(found[1]), reference)

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        """Who sends much asks first: a refusal would be lost while the body is under way."""
        path = self.inside(request.rel_url.raw_path)
        body = await request.read() if request.body_exists else None
        query = request.rel_url.raw_query_string
        async with self._client.request(
            request.method,
            URL(f"{self._server}{path}" + (f"?{query}" if query else ""), encoded=True),
            headers=self._rewritten(request.headers, self.inside),
            data=None if body is None else io.BytesIO(body),
            expect100=body is not None and len(body) > MUCH,
            skip_auto_headers=("Content-Type", "Accept", "Accept-Encoding", "User-Agent"),
            allow_redirects=False,
        ) as found:
            return await self._give_back(request, found)

    async def _give_back(
        self, request: web.Request, found: aiohttp.ClientResponse
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            status=found.status, headers=self._rewritten(found.headers, self.outside)
        )
        await response.prepare(request)
        async for piece in found.content.iter_any():
            await response.write(piece)
        await response.write_eof()
        return response

    @staticmethod
    def _rewritten(given: CIMultiDictProxy[str], change: Callable[[str], str]) -> CIMultiDict[str]:
        kept = CIMultiDict(given)
        for name in OF_THE_CONNECTION:
            kept.popall(name, None)
        for name in REFERENCES:
            if name in kept:
                kept[name] = change(kept[name])
        return kept


def _with_slashes(local: str) -> str:
    return local.replace("~1", "/").replace("~0", "~")
