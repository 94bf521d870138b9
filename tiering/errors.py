"""What can go wrong, sorted by what the caller should do next. Nothing here knows HTTP."""

from tiering.offset import Offset


class StreamError(Exception):
    """The message is one sentence for a person."""


class Invalid(StreamError):
    """The request can never succeed as it is."""


class BeyondEnd(Invalid):
    """The offset lies where the stream has not come yet."""

    def __init__(self) -> None:
        super().__init__("The offset lies beyond the end of the stream.")


class NotFound(StreamError):
    """There is no such stream."""


class Gone(StreamError):
    """The offset led somewhere once; go on at `resume`."""

    def __init__(self, message: str, resume: Offset) -> None:
        super().__init__(message)
        self.resume = resume


class Deleted(StreamError):
    """The stream was deleted; forks of it live on, so its name is not free yet."""

    def __init__(self) -> None:
        super().__init__("The stream was deleted. Forks of it still exist.")


class Fenced(StreamError):
    """A newer epoch of this producer has taken over."""

    def __init__(self, current_epoch: int) -> None:
        super().__init__(f"The producer has moved on to epoch {current_epoch}.")
        self.current_epoch = current_epoch


class Conflict(StreamError):
    """The request disagrees with what the stream is now."""


class StreamClosed(Conflict):
    def __init__(self, tail: Offset) -> None:
        super().__init__("The stream is closed and takes no more appends.")
        self.tail = tail


class SequenceGap(Conflict):
    def __init__(self, expected: int, received: int) -> None:
        super().__init__(f"Expected Producer-Seq {expected} next, received {received}.")
        self.expected = expected
        self.received = received


class TooLarge(StreamError):
    """More bytes than this server takes."""


class Unavailable(StreamError):
    """Nothing is known to have happened; the same request may succeed later."""

    retry_after_secs = 1


class Corrupt(StreamError):
    """Stored data is not what was written."""


class Mistake(StreamError):
    """The server did something that it should not have done."""


class Refused(Exception):
    """This deployment must not be served; the message is one line for the operator."""
