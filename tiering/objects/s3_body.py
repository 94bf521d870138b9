"""An object's bytes on their way from S3, counted."""

import re
from collections.abc import AsyncIterator
from types import TracebackType
from typing import TYPE_CHECKING, Self

from tiering.objects.retry import Transient
from tiering.objects.s3_errors import translated
from tiering.objects.span import Span
from tiering.objects.store import PIECE_BYTES

if TYPE_CHECKING:
    from aiobotocore.response import StreamingBody
    from types_aiobotocore_s3.type_defs import GetObjectOutputTypeDef

_CONTENT_RANGE = re.compile(r"bytes ([0-9]+)-([0-9]+)/([0-9]+)")


class Body:
    """An async context manager. Leaving it before the end drops the connection."""

    def __init__(self, raw: "StreamingBody | None", length: int) -> None:
        self._raw = raw
        self._length = length

    @classmethod
    def of(cls, answer: "GetObjectOutputTypeDef", span: Span) -> Self:
        """Refuses an answer to another question than the one that was asked."""
        try:
            return cls(answer["Body"], _agreed_length(answer, span))
        except BaseException:
            answer["Body"].close()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._raw is not None:
            self._raw.close()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Exactly as many bytes as were announced, or Transient."""
        left = self._length
        while left and self._raw is not None:
            with translated():
                piece = await self._raw.read(min(left, PIECE_BYTES))
            if not piece:
                raise Transient("Object storage broke off an answer.")
            left -= len(piece)
            yield piece


NOTHING = Body(None, 0)


def _agreed_length(answer: "GetObjectOutputTypeDef", span: Span) -> int:
    announced = answer.get("ContentLength")
    if announced is None:
        raise Transient("Object storage did not tell how much it sends.")
    return announced if span.is_everything else _ranged_length(answer, announced, span)


def _ranged_length(answer: "GetObjectOutputTypeDef", announced: int, span: Span) -> int:
    told = _CONTENT_RANGE.fullmatch(answer.get("ContentRange", ""))
    if told is None:
        raise Transient("Object storage did not heed a range.")
    first, last, size = map(int, told.groups())
    length = span.length_in(size)
    if (span.start, length, length) != (first, last + 1 - first, announced):
        raise Transient("Object storage sends another range than the one asked for.")
    return length
