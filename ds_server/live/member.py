"""One of those who wait at the end of a stream."""

import asyncio

from ds_server.live.news import News
from tiering.stream import View


class Member:
    """`view` is the piece that was delivered last. It ends where the next one begins."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.is_late = False
        self._future: asyncio.Future[None] | None = None

    def wait(self, loop: asyncio.AbstractEventLoop) -> "asyncio.Future[None]":
        self._future = loop.create_future()
        return self._future

    def take(self, news: News) -> bool:
        """Takes it at once and stays; or False: lets his own task go on."""
        raise NotImplementedError

    def let_go(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
