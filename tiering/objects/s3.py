"""Objects in a bucket of S3, or of anything that speaks like it."""

from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from aiobotocore.session import AioSession, get_session
from botocore.exceptions import BotoCoreError

from tiering.errors import Refused
from tiering.objects.names import checked, decoded, encoded
from tiering.objects.probe import probe
from tiering.objects.retry import PATIENT, Patience, Transient
from tiering.objects.s3_body import NOTHING, Body
from tiering.objects.s3_client import config, connect
from tiering.objects.s3_errors import AlreadyThere, OutOfRange, refusal, translated
from tiering.objects.s3_upload import PART_BYTES, Upload, checksum, parts_of
from tiering.objects.span import Span
from tiering.objects.store import ObjectInfo, ObjectMissing

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client
    from types_aiobotocore_s3.type_defs import ListObjectsV2OutputTypeDef

_MOST_KEYS = 1000
_SIGNED_SECS = 300


class S3Store:
    """Credentials come in the usual AWS ways, through `session` if there is one already.

    Streams have connections of their own: however slowly they are read, the rest goes on.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint: str | None = None,
        region: str | None = None,
        path_style: bool | None = None,
        patience: Patience = PATIENT,
        connections: int = 32,
        page_keys: int = _MOST_KEYS,
        session: AioSession | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._endpoint = endpoint
        self._region = region
        self._patience = patience
        self._config = config(
            path_style=endpoint is not None if path_style is None else path_style,
            connections=connections,
            patience=patience,
        )
        self._page_keys = page_keys
        self._session = session or get_session()
        self._opened = AsyncExitStack()
        self._client: S3Client
        self._streams: S3Client

    def __str__(self) -> str:
        place = f" at {self._endpoint}" if self._endpoint else ""
        return f"s3://{self._bucket}/{self._prefix}{place}"

    async def __aenter__(self) -> Self:
        make = partial(connect, self._session, self._endpoint, self._region, self._config)
        try:
            self._client = await self._opened.enter_async_context(make())
            self._streams = await self._opened.enter_async_context(make())
        except (BotoCoreError, ValueError) as error:
            await self._opened.aclose()
            raise Refused(f"{self} cannot be used: {error}") from error
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._opened.aclose()

    async def check(self) -> None:
        await probe(self)

    async def put_if_absent(self, key: str, body: bytes, metadata: Mapping[str, str] = {}) -> bool:
        put = partial(self._put, self._name(key), body, Metadata=encoded(metadata), IfNoneMatch="*")
        try:
            await self._patience.retry(put)
        except AlreadyThere:
            return False
        return True

    async def put(self, key: str, body: bytes) -> None:
        await self._patience.retry(partial(self._put, self._name(key), body))

    async def put_pieces(self, key: str, pieces: AsyncIterable[bytes]) -> None:
        name, parts = self._name(key), parts_of(pieces)
        first = await anext(parts)
        if len(first) < PART_BYTES:
            await self._patience.retry(partial(self._put, name, first))
            return
        upload = Upload(self._streams, self._bucket, name, self._patience)
        await upload.begin()
        try:
            await upload.send(first)
            async for part in parts:
                if part:
                    await upload.send(part)
            await upload.finish()
        except BaseException:
            await upload.abandon()
            raise

    async def get(self, key: str, start: int | None = None, end: int | None = None) -> bytes:
        name, span = self._name(key), Span.of(start, end)
        return await self._patience.retry(lambda: self._read(name, span))

    async def stream(
        self, key: str, start: int | None = None, end: int | None = None
    ) -> AsyncGenerator[bytes, None]:
        name, span = self._name(key), Span.of(start, end)
        async with await self._patience.retry(
            lambda: self._open(self._streams, name, span)
        ) as body:
            async for piece in body.pieces():
                yield piece

    async def address(self, key: str, *, signed: bool) -> str:
        """Unsigned, it is for an edge that may read the bucket by itself."""
        place = {"Bucket": self._bucket, "Key": self._name(key)}
        url = await self._client.generate_presigned_url(
            "get_object", Params=place, ExpiresIn=_SIGNED_SECS
        )
        return url if signed else url.partition("?")[0]

    async def head(self, key: str) -> ObjectInfo | None:
        name = self._name(key)
        return await self._patience.retry(lambda: self._head(name))

    async def list(self, prefix: str = "", after: str | None = None) -> AsyncIterator[ObjectInfo]:
        if after is not None and not after.startswith(prefix):
            if after > prefix:
                return
            after = None  # SeaweedFS before 4.48 finds nothing after a key outside the prefix.
        place = {"StartAfter": self._prefix + after} if after else {}
        while True:
            page = await self._patience.retry(partial(self._page, self._prefix + prefix, **place))
            for found in page.get("Contents", ()):
                key, tag = found["Key"].removeprefix(self._prefix), found.get("ETag", "")
                yield ObjectInfo(key, found["Size"], tag=tag)
            if not page["IsTruncated"]:
                return
            place = {"ContinuationToken": page["NextContinuationToken"]}

    async def delete(self, keys: Sequence[str]) -> None:
        names = [self._name(key) for key in keys]
        for first in range(0, len(names), _MOST_KEYS):
            batch = names[first : first + _MOST_KEYS]
            await self._patience.retry(partial(self._delete, batch))

    def _name(self, key: str) -> str:
        return checked(self._prefix + checked(key))

    async def _put(self, name: str, body: bytes, **conditions: Any) -> None:
        with translated():
            await self._client.put_object(
                Bucket=self._bucket,
                Key=name,
                Body=body,
                ChecksumCRC32=checksum(body),
                **conditions,
            )

    async def _read(self, name: str, span: Span) -> bytes:
        async with await self._open(self._client, name, span) as body:
            return b"".join([piece async for piece in body.pieces()])

    async def _open(self, client: "S3Client", name: str, span: Span) -> Body:
        if span.is_empty:
            return await self._open_nothing(name, span)
        asked: Any = {} if span.is_everything else {"Range": _range(span)}
        try:
            with translated():
                answer = await client.get_object(Bucket=self._bucket, Key=name, **asked)
        except OutOfRange:
            return await self._open_nothing(name, span)
        return Body.of(answer, span)

    async def _open_nothing(self, name: str, span: Span) -> Body:
        """HTTP has no empty ranges: what would be in one is found out from the size."""
        info = await self._head(name)
        if info is None:
            raise ObjectMissing
        if span.length_in(info.size):
            raise Transient("Object storage does not send a range that it has.")
        return NOTHING

    async def _head(self, name: str) -> ObjectInfo | None:
        try:
            with translated():
                answer = await self._client.head_object(Bucket=self._bucket, Key=name)
        except ObjectMissing:
            # An answer to HEAD does not tell a missing key from a missing bucket.
            await self._page(name, MaxKeys=1)
            return None
        key = name.removeprefix(self._prefix)
        return ObjectInfo(key, answer["ContentLength"], decoded(answer["Metadata"]))

    async def _page(self, prefix: str, **place: Any) -> "ListObjectsV2OutputTypeDef":
        asked = {"MaxKeys": self._page_keys} | place
        with translated():
            return await self._client.list_objects_v2(Bucket=self._bucket, Prefix=prefix, **asked)

    async def _delete(self, names: Sequence[str]) -> None:
        objects: Any = {"Objects": [{"Key": name} for name in names], "Quiet": True}
        with translated():
            answer = await self._client.delete_objects(Bucket=self._bucket, Delete=objects)
        for error in answer.get("Errors", ()):
            if error["Code"] != "NoSuchKey":
                raise refusal(error["Code"], 200)


def _range(span: Span) -> str:
    return f"bytes={span.start}-{'' if span.end is None else span.end - 1}"
