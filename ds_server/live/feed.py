"""What a worker knows of the streams that are followed through it."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ds_server.live.frames import Frames
from tiering.hot.keys import stream_keys
from tiering.hot.subscription import Subscription
from tiering.hot.wake import State, Wake
from tiering.offset import Offset
from tiering.single_flight import SingleFlight
from tiering.stream import View
from tiering.streams import Streams

_PATIENCE_SECS = 1.0


class Closing(Exception):
    """The worker is shutting down."""


@dataclass(frozen=True, slots=True)
class News:
    """The next piece of a stream; `stored` is there when it came with the wake-up."""

    view: View
    stored: bytes | None = None
    heard_at: float | None = None


class Feed:
    """One followed stream: hears its wake-ups, wakes its followers, reads once for all of them."""

    def __init__(self, streams: Streams, name: str) -> None:
        self._streams = streams
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._waiting: set[asyncio.Future[None]] = set()
        self._looks: SingleFlight[Offset, View] = SingleFlight()
        self._news: News | None = None
        self.frames = Frames(streams)
        self.followers = 0
        self.latest: Wake | None = None
        self.heard_at = 0.0
        self.times_heard = 0
        self.closing = False

    def hear(self, message: bytes | None) -> None:
        """None: the channel is heard from now on, what came before may have been missed."""
        if message is None:
            self.times_heard += 1
        else:
            self.heard_at = time.perf_counter()
            self.latest = Wake.parse(message)
            self._news = None
            self._streams.note(self.latest)
        self.wake()

    def wake(self) -> None:
        waiting, self._waiting = self._waiting, set()
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def change(self, timeout: float | None) -> None:
        """Returns when something happened, or when the time is over."""
        future = self._loop.create_future()
        self._waiting.add(future)
        timer = None if timeout is None else self._loop.call_later(timeout, _finish, future)
        try:
            await future
        finally:
            self._waiting.discard(future)
            if timer is not None:
                timer.cancel()

    async def heard(self) -> None:
        """Waits a moment for the channel; who goes on without it is told when it is heard."""
        deadline = self._loop.time() + _PATIENCE_SECS
        while not self.times_heard and not self.closing and self._loop.time() < deadline:
            await self.change(deadline - self._loop.time())

    async def look(self, source: Offset) -> View:
        """All followers at one position share one look."""
        return await self._looks.do(source, lambda: self._streams.look(self._name, source))

    def told(self, known: View) -> News | None:
        """What the latest wake-up tells a follower who has seen `known`, if that is enough."""
        if self._news is None:
            self._news = self._tell(known)
        news = self._news
        if news is None or news.view.start != known.end or news.view.stream.log != known.stream.log:
            return None
        return news

    def _tell(self, known: View) -> News | None:
        wake, stream = self.latest, known.stream
        if wake is None or wake.log != stream.log or wake.state is State.DELETED:
            return None
        # A lifetime is measured by the hot tier's clock, so such streams are looked up.
        if not wake.carries_data or stream.lifetime.ends:
            return None
        end = wake.end if wake.cut is None else wake.cut
        now = replace(stream, tail=wake.end, closed=wake.state is State.CLOSED)
        return News(View(now, wake.start, end), wake.data[: end - wake.start], self.heard_at)


def _finish(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


class Follower:
    """One reader's place in a feed."""

    def __init__(self, feed: Feed, view: View, times_heard: int) -> None:
        self._feed = feed
        self._view = view
        self._times_heard = times_heard

    async def news(self, deadline: float | None) -> News | None:
        """What follows the view that was delivered last; None when nothing came in time."""
        loop = asyncio.get_running_loop()
        while True:
            if self._feed.closing:
                raise Closing
            news = await self._available()
            if news is not None:
                self._view = news.view
                return news
            left = None if deadline is None else deadline - loop.time()
            if left is not None and left <= 0:
                return None
            await self._feed.change(left)

    async def _available(self) -> News | None:
        known, feed = self._view, self._feed
        if not known.at_tail:
            return await self._look()
        if self._times_heard != feed.times_heard:
            self._times_heard = feed.times_heard
            return await self._look()
        wake = feed.latest
        if wake is None or wake.log < known.stream.log:
            return None
        if wake.log == known.stream.log and wake.end <= known.end and wake.state is State.OPEN:
            return None
        return feed.told(known) or await self._look()

    async def _look(self) -> News | None:
        known = self._view
        view = await self._feed.look(known.stream.at(known.end))
        if view.is_empty and not view.at_closed_end:
            return None
        return News(view)


class Feeds:
    """The feeds of one worker; a stream is heard only while somebody follows it."""

    def __init__(self, streams: Streams, subscription: Subscription) -> None:
        self._streams = streams
        self._subscription = subscription
        self._feeds: dict[str, Feed] = {}
        self._closing = False

    @contextmanager
    def follow(self, name: str) -> Iterator[Feed]:
        feed = self._feeds.get(name)
        if feed is None:
            feed = self._feeds[name] = Feed(self._streams, name)
            feed.closing = self._closing
            self._subscription.follow(stream_keys(name).live, feed.hear)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                del self._feeds[name]
                self._subscription.unfollow(stream_keys(name).live)

    def close(self) -> None:
        """Every waiting reader is woken and sent away."""
        self._closing = True
        for feed in self._feeds.values():
            feed.closing = True
            feed.wake()
