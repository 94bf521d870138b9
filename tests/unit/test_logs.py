"""Log lines for people and for machines."""

import json
import logging
import sys

from ds_server.logs import JsonFormatter, TextFormatter


def a_record(**members: object) -> logging.LogRecord:
    return logging.makeLogRecord(
        {"name": "place", "levelname": "INFO", "msg": "%d done", "args": (3,), "created": 0.0}
        | members
    )


def test_a_text_line_begins_with_the_time_in_utc() -> None:
    line = TextFormatter().format(a_record(process=7))
    assert line == "1970-01-01T00:00:00.000Z INFO    [7] place: 3 done"


def test_a_json_line_holds_the_message_and_what_was_added() -> None:
    line = JsonFormatter().format(a_record(process=7, request_id="abc", odd={1, 2}))
    assert "\n" not in line
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "logger": "place",
        "pid": 7,
        "message": "3 done",
        "request_id": "abc",
        "odd": [1, 2],
    }


def test_a_json_line_holds_what_went_wrong() -> None:
    try:
        raise ValueError("the reason")
    except ValueError:
        line = JsonFormatter().format(a_record(exc_info=sys.exc_info()))
    assert "ValueError: the reason" in json.loads(line)["exception"]
