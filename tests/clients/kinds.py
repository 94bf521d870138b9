"""The three kinds of streams, as the scripts' `kinds.mjs` knows them."""

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from support.client import BYTES, JSON, TEXT, Answer


@dataclass(frozen=True, slots=True)
class Kind:
    """Messages and contents are in the form of the scripts' JSON, where bytes are base64."""

    name: str
    content_type: str

    def __str__(self) -> str:
        return self.name

    def message(self, number: int) -> Any:
        """A message unlike all others, with what is easily damaged on the way."""
        match self.name:
            case "json":
                return {"number": number, "text": f'ü€😀 "quoted"\n{number}', "list": [[], {}]}
            case "text":
                return f"  {number} begins with spaces, ü€😀\n\ndata: {number}\n"
            case _:
                return base64.b64encode(b"%d:" % number + bytes(range(256))).decode()

    def messages(self, start: int, end: int) -> list[Any]:
        return [self.message(number) for number in range(start, end)]

    def body(self, message: Any) -> bytes:
        """The message as a request carries it."""
        match self.name:
            case "json":
                return json.dumps(message).encode()
            case "text":
                return str(message).encode()
            case _:
                return base64.b64decode(message)

    def content(self, messages: list[Any]) -> Any:
        """What a reader of these messages has in the end."""
        match self.name:
            case "json":
                return messages
            case "text":
                return "".join(messages)
            case _:
                return base64.b64encode(b"".join(map(self.body, messages))).decode()

    def answered(self, answers: Sequence[Answer]) -> Any:
        """The content that the server's own answers carry."""
        match self.name:
            case "json":
                return [item for answer in answers for item in answer.json()]
            case "text":
                return b"".join(answer.body for answer in answers).decode()
            case _:
                return base64.b64encode(b"".join(answer.body for answer in answers)).decode()


KIND_OF_JSON, KIND_OF_TEXT, KIND_OF_BYTES = KINDS = (
    Kind("json", JSON),
    Kind("text", TEXT),
    Kind("bytes", BYTES),
)
