"""Why the server did not take what Spark writes, in one line each."""

from spark.surface import Answer
from tiering.errors import Conflict, Invalid, NotFound, StreamError, TooLarge, Unavailable


def of(name: str, answer: Answer) -> StreamError:
    match answer.status:
        case 404:
            return NotFound(
                f"{name}: there is no such stream. The option contentType would make it."
            )
        case 409:
            return _conflict(name, answer)
        case 413:
            return TooLarge(f"{name}: {answer.detail}")
        case status if 400 <= status < 500:
            return Invalid(f"{name}: {answer.detail}")
        case _:
            return Unavailable(f"{name}: {answer.detail}")


def _conflict(name: str, answer: Answer) -> StreamError:
    if answer.number("Producer-Expected-Seq") is not None:
        return Conflict(f"{name} has lost what was appended: it was deleted, or went back in time.")
    if answer.headers["Stream-Closed"]:
        return Conflict(f"{name} is closed and takes no more appends.")
    return Conflict(f"{name}: {answer.detail}")


def changed(name: str, producer: str, epoch: int) -> StreamError:
    return Conflict(
        f"{name}: {producer} began epoch {epoch} with other rows than it has now; "
        "this time it wrote nothing."
    )


def fenced(name: str, producer: str, epoch: int, known: int) -> StreamError:
    return Conflict(
        f"{name}: {producer} is at epoch {known} already, and this is {epoch}: "
        "a newer run has taken over, or the checkpoint is older than the stream."
    )


def taken(name: str, producer: str) -> StreamError:
    return Conflict(f"{name}: somebody else writes as {producer}: choose another producer.")
