"""What a worker knows of the streams that are followed through it."""

import asyncio
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
        self._changed = self._loop.create_future()
        self._looks: SingleFlight[Offset, View] = SingleFlight()
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
            self.heard_at = self._loop.time()
            self.latest = Wake.parse(message)
            self._streams.note(self.latest)
        self.wake()

    def wake(self) -> None:
        self._changed.set_result(None)
        self._changed = self._loop.create_future()

    async def change(self, timeout: float | None) -> bool:
        """False when nothing happened in time."""
        done, _ = await asyncio.wait({self._changed}, timeout=timeout)
        return bool(done)

    async def heard(self) -> None:
        while not self.times_heard and not self.closing:
            await self.change(None)

    async def look(self, source: Offset) -> View:
        """All followers at one position share one look."""
        return await self._looks.do(source, lambda: self._streams.look(self._name, source))


class Follower:
    """One reader's place in a feed."""

    def __init__(self, feed: Feed, view: View, times_heard: int) -> None:
        self._feed = feed
        self._view = view
        self._times_heard = times_heard

    async def news(self, timeout: float | None) -> News | None:
        """What follows the view that was delivered last; None when nothing came in time."""
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
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
        known = self._view
        if not known.at_tail:
            return await self._look()
        if self._times_heard != self._feed.times_heard:
            self._times_heard = self._feed.times_heard
            return await self._look()
        wake = self._feed.latest
        if wake is None or wake.log < known.stream.log:
            return None
        if wake.log == known.stream.log and wake.end <= known.end and wake.state is State.OPEN:
            return None
        return self._from_wake(wake) or await self._look()

    def _from_wake(self, wake: Wake) -> News | None:
        stream = self._view.stream
        follows = wake.log == stream.log and wake.start == self._view.end
        # A lifetime is measured by the hot tier's clock, so such streams are looked up.
        if not follows or not wake.carries_data or stream.lifetime.ends:
            return None
        if wake.state is State.DELETED:
            return None
        closed = wake.state is State.CLOSED
        end = wake.end if wake.cut is None else wake.cut
        now = replace(stream, tail=wake.end, closed=closed)
        return News(View(now, wake.start, end), wake.data[: end - wake.start], self._feed.heard_at)

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
