"""Objects too large to be held in memory, sent in parts."""

import base64
import zlib
from collections.abc import AsyncIterable, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any

from tiering.errors import Unavailable
from tiering.objects.retry import Patience
from tiering.objects.s3_errors import translated

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client

PART_BYTES = 8 * 1024 * 1024


async def parts_of(pieces: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Parts of the size that S3 wants; the last one is what is left, and may be empty."""
    part = bytearray()
    async for piece in pieces:
        part += piece
        while len(part) >= PART_BYTES:
            yield bytes(part[:PART_BYTES])
            del part[:PART_BYTES]
    yield bytes(part)


def checksum(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


class Upload:
    """Nothing is to be seen of the object before `finish`."""

    def __init__(self, client: "S3Client", bucket: str, name: str, patience: Patience) -> None:
        self._client = client
        self._place: Any = {"Bucket": bucket, "Key": name}
        self._patience = patience
        self._sent: list[Any] = []

    async def begin(self) -> None:
        self._place["UploadId"] = await self._patience.retry(self._begin)

    async def send(self, part: bytes) -> None:
        number = len(self._sent) + 1
        tag = await self._patience.retry(partial(self._send, number, part))
        self._sent.append({"ETag": tag, "PartNumber": number})

    async def finish(self) -> None:
        await self._patience.retry(self._finish)

    async def abandon(self) -> None:
        """What cannot be abandoned now is left to the bucket's own rules for such parts."""
        try:
            with translated():
                await self._client.abort_multipart_upload(**self._place)
        except Unavailable:
            return

    async def _begin(self) -> str:
        with translated():
            answer = await self._client.create_multipart_upload(**self._place)
        return answer["UploadId"]

    async def _send(self, number: int, part: bytes) -> str:
        with translated():
            answer = await self._client.upload_part(
                **self._place, PartNumber=number, Body=part, ContentLength=len(part)
            )
        return answer["ETag"]

    async def _finish(self) -> None:
        with translated():
            await self._client.complete_multipart_upload(
                **self._place, MultipartUpload={"Parts": self._sent}
            )
