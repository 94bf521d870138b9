"""What orchestrators ask: is it alive, and is it ready."""

import aiohttp
import pytest
from support.server import RunningServer


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_a_running_server_says_so(
    server: RunningServer, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.get(server.url + path) as response:
        assert response.status == 200
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
async def test_health_is_asked_by_get_or_head_only(
    server: RunningServer, http: aiohttp.ClientSession, path: str
) -> None:
    async with http.head(server.url + path) as response:
        assert response.status == 200
    async with http.post(server.url + path) as response:
        assert response.status == 405
        assert "GET" in response.headers["Allow"]


async def test_what_does_not_exist_is_not_found(
    server: RunningServer, http: aiohttp.ClientSession
) -> None:
    for path in ("/", "/nothing", "/v1", "/v1/stream"):
        async with http.get(server.url + path) as response:
            assert response.status == 404
            assert response.headers["Content-Type"] == "application/problem+json"
            assert response.headers["Cache-Control"] == "no-store"
