"""How log lines look: text for people, JSON for machines."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

from ds_server.settings import Log

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "taskName"}


class TextFormatter(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s [%(process)d] %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return _time(record)


class JsonFormatter(logging.Formatter):
    """One object per line; whatever is passed as `extra` becomes a member of it."""

    def format(self, record: logging.LogRecord) -> str:
        members = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "pid": record.process,
            "message": record.getMessage(),
            **{key: value for key, value in vars(record).items() if key not in _STANDARD},
        }
        if record.exc_info:
            members["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(members, enc_hook=str).decode()


def configure(log: Log) -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if log.format == "json" else TextFormatter())
    logging.basicConfig(level=log.level.upper(), handlers=[handler], force=True)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
