"""One structured line for each request, when asked for."""

from aiohttp import web
from aiohttp.abc import AbstractAccessLogger

from ds_server.request_id import request_id


class AccessLog(AbstractAccessLogger):
    def log(self, request: web.BaseRequest, response: web.StreamResponse, time: float) -> None:
        members = {
            "request_id": request_id(request),
            "remote": request.remote,
            "method": request.method,
            "path": request.rel_url.raw_path_qs,
            "status": response.status,
            "bytes": response.body_length,
            "ms": round(time * 1000, 3),
        }
        text = " ".join(f"{name}={value}" for name, value in members.items())
        self.logger.info(text, extra=members)
