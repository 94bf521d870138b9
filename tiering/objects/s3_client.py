"""How S3 is spoken to: one attempt, no surprises, and what other stores need."""

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from aiobotocore.config import AioConfig
from aiobotocore.session import AioSession, get_session

from tiering.objects.retry import Patience

if TYPE_CHECKING:
    from types_aiobotocore_s3.client import S3Client

    from tiering.objects.open import Credentials

_FALLBACK_REGION = "us-east-1"


def config(*, path_style: bool, connections: int, patience: Patience) -> AioConfig:
    return AioConfig(
        connect_timeout=patience.connect_secs,
        read_timeout=patience.read_secs,
        max_pool_connections=connections,
        signature_version="s3v4",
        retries={"total_max_attempts": 1},
        s3={"addressing_style": "path" if path_style else "auto"},
        # The newer defaults send trailers, which other stores do not know.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
    )


def session_with(credentials: "Credentials") -> AioSession:
    session = get_session()
    session.set_credentials(credentials.key_id, credentials.secret, credentials.token)
    return session


@asynccontextmanager
async def connect(
    session: AioSession, endpoint: str | None, region: str | None, config: AioConfig
) -> AsyncIterator["S3Client"]:
    region = region or session.get_config_variable("region") or _FALLBACK_REGION
    async with session.create_client("s3", region, endpoint_url=endpoint, config=config) as client:
        client.meta.events.register("before-sign.s3.DeleteObjects", _add_content_md5)
        yield client


def _add_content_md5(request: Any, **_: Any) -> None:
    """MinIO before 2025, and others still, want it; botocore sends only newer checksums."""
    digest = hashlib.md5(request.body, usedforsecurity=False).digest()
    request.headers["Content-MD5"] = base64.b64encode(digest).decode()
