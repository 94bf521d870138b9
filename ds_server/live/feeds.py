"""All streams that are followed through one worker."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

from ds_server import metrics
from ds_server.live.feed import Feed
from ds_server.live.turns import Turns
from tiering.hot.keys import stream_keys
from tiering.hot.subscription import Subscription
from tiering.streams import Streams

_LINGER_SECS = 3.0
_MOST_LINGERING = 1000


class Feeds:
    """A stream is heard while somebody follows it, and a little longer: who polls comes back."""

    def __init__(self, streams: Streams, subscription: Subscription, turns: Turns) -> None:
        self._streams = streams
        self._subscription = subscription
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._feeds: dict[str, Feed] = {}
        self._left_at: OrderedDict[str, float] = OrderedDict()
        self._timer: asyncio.TimerHandle | None = None
        self._closing = False

    @contextmanager
    def follow(self, name: str) -> Iterator[Feed]:
        feed = self._feeds.get(name) or self._begin(name)
        self._left_at.pop(name, None)
        feed.followers += 1
        try:
            yield feed
        finally:
            feed.followers -= 1
            if not feed.followers:
                self._leave(name)

    def close(self) -> None:
        """Every waiting reader is woken and sent away."""
        self._closing = True
        for feed in self._feeds.values():
            feed.close()

    def _begin(self, name: str) -> Feed:
        feed = self._feeds[name] = Feed(self._streams, name, self._turns)
        feed.closing = self._closing
        metrics.FEEDS.inc()
        self._subscription.follow(stream_keys(name).live, feed.hear)
        return feed

    def _leave(self, name: str) -> None:
        self._left_at[name] = self._loop.time()
        if len(self._left_at) > _MOST_LINGERING:
            self._end(next(iter(self._left_at)))
        if self._timer is None:
            self._timer = self._loop.call_later(_LINGER_SECS, self._tidy)

    def _tidy(self) -> None:
        """Those who left first come first."""
        self._timer = None
        while self._left_at:
            name, left_at = next(iter(self._left_at.items()))
            remaining = left_at + _LINGER_SECS - self._loop.time()
            if remaining > 0:
                self._timer = self._loop.call_later(remaining, self._tidy)
                return
            self._end(name)

    def _end(self, name: str) -> None:
        del self._left_at[name]
        del self._feeds[name]
        metrics.FEEDS.dec()
        self._subscription.unfollow(stream_keys(name).live)
