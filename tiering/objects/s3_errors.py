"""What botocore and aiohttp raise, in our words. Messages name no key and no address."""

import contextlib
from collections.abc import Iterator

import aiohttp
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from tiering.errors import Unavailable
from tiering.objects.retry import Transient
from tiering.objects.store import ObjectMissing


class AlreadyThere(Exception):
    """Put-if-absent has found an object."""


class OutOfRange(Exception):
    """The range begins at or beyond the end of the object."""


_OUTCOMES: dict[str, type[ObjectMissing | AlreadyThere | OutOfRange]] = {
    "NoSuchKey": ObjectMissing,
    "404": ObjectMissing,
    "PreconditionFailed": AlreadyThere,
    "412": AlreadyThere,
    "InvalidRange": OutOfRange,
    "416": OutOfRange,
}
_DAMAGED_ON_THE_WAY = {"BadDigest", "IncompleteBody", "XAmzContentSHA256Mismatch"}
_PASSING = _DAMAGED_ON_THE_WAY | {
    "InternalError",
    "RequestTimeout",
    "SlowDown",
    "ServiceUnavailable",
}


@contextlib.contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        raise refusal(error.response["Error"]["Code"], status) from error
    except NoCredentialsError as error:
        raise Unavailable("Object storage wants credentials.") from error
    except (BotoCoreError, aiohttp.ClientError, OSError) as error:
        raise Transient("Object storage cannot be reached.") from error


def refusal(code: str, status: int) -> Exception:
    if outcome := _OUTCOMES.get(code):
        return outcome()
    if code in _PASSING or _is_passing(status):
        return Transient(f"Object storage answered {code}.")
    return Unavailable(f"Object storage answered {code}.")


def _is_passing(status: int) -> bool:
    """409 is a conditional write that met another one; 501 stays what it is."""
    return status in (409, 429) or (status >= 500 and status != 501)
