"""From the address in the settings to the object store."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from tiering.errors import Invalid, Refused
from tiering.objects.directory import DirectoryStore
from tiering.objects.names import checked
from tiering.objects.store import ObjectStore


@dataclass(frozen=True, slots=True)
class Credentials:
    """For who has them from elsewhere than the environment."""

    key_id: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def open_store(
    url: str,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    credentials: Credentials | None = None,
    read_only: bool = False,
) -> ObjectStore:
    """A store that is not entered yet; Refused when the address means nothing."""
    parts = urlsplit(url)
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return DirectoryStore(Path(unquote(parts.path)), read_only=read_only)
    if parts.scheme == "s3" and parts.netloc:
        # Half a second that a directory does not need.
        from tiering.objects.s3 import S3Store
        from tiering.objects.s3_client import session_with

        session = session_with(credentials) if credentials else None
        return S3Store(
            parts.netloc, _prefix(parts), endpoint=endpoint, region=region, session=session
        )
    raise Refused(f"{url!r} names no object store: use s3://bucket/prefix or file:///directory")


def _prefix(parts: SplitResult) -> str:
    prefix = parts.path.strip("/")
    try:
        return checked(prefix) if prefix else ""
    except Invalid as error:
        raise Refused(f"{parts.geturl()!r} names no object store: {error}") from error
