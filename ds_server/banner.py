"""What the server says when it is ready."""

import logging
from importlib.metadata import version

from ds_server.logs import JsonFormatter
from ds_server.settings import Settings, masked
from tiering.engine import Promise


def banner(settings: Settings, port: int, data: str, promise: Promise) -> str:
    address = f"listening on {url(settings, port)}"
    facts = {
        "version": version("ds-server"),
        "workers": settings.server.workers,
        "data": masked(data),
        "engine": f"{promise.engine.capitalize()} {promise.version}",
        "durability": promise.sentence,
    }
    return _as_json(address, facts) if settings.log.format == "json" else _as_text(address, facts)


def url(settings: Settings, port: int) -> str:
    scheme = "http" if settings.tls.cert_path is None else "https"
    host = settings.server.host
    if host in ("127.0.0.1", "::1"):
        host = "localhost"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _as_text(address: str, facts: dict[str, object]) -> str:
    lines = [f"  {name:<12}{value}" for name, value in facts.items()]
    return "\n".join(["", f"  Durable Streams, {address}", "", *lines, ""])


def _as_json(address: str, facts: dict[str, object]) -> str:
    record = logging.makeLogRecord({"name": __name__, "levelname": "INFO", "msg": address, **facts})
    return JsonFormatter().format(record)
