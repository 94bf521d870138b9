"""One followed stream, as a worker knows it."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable

from ds_server.live.flights import Flights
from ds_server.live.gate import Gate
from ds_server.live.member import Member
from ds_server.live.news import News
from ds_server.live.recent import Recent
from ds_server.live.turns import FRAME, TASK, Turns
from tiering.hot.wake import State, Wake
from tiering.offset import NOW, ReadFrom
from tiering.stream import View
from tiering.streams import Streams

log = logging.getLogger(__name__)

_PATIENCE_SECS = 1.0


class Feed:
    """Hears the stream's wake-ups and hands what they bring to everyone who waits at its end.

    Who cannot be served that way is let go, and looks for himself; looks at one position are
    shared. `hearing` counts how often the channel began to be heard: what was looked up before
    it began anew may be older than something that was missed.
    """

    def __init__(self, streams: Streams, name: str, turns: Turns) -> None:
        self._streams = streams
        self._name = name
        self._turns = turns
        self._loop = asyncio.get_running_loop()
        self._looks: Flights[tuple[ReadFrom, int], View] = Flights(turns)
        self._moments = 0
        self._moment_lasts = False
        self._members: dict[Member, None] = {}
        self._behind: list[Member] = []
        self._has_more = False
        self._latest: Wake | None = None
        self._recent: Recent | None = None
        self._heard = Gate(turns)
        self.hearing = 0
        self.followers = 0
        self.closing = False

    def hear(self, message: bytes | None) -> None:
        """None: the channel is heard from now on, what came before may have been missed."""
        if message is None:
            self.hearing += 1
            self._heard.open()
            self._recent = None
        else:
            wake = Wake.parse(message)
            if wake.state is State.TRIMMED:
                self._forget(wake)
                return
            self._take_in(wake)
        if self._behind:
            self._has_more = True
        elif self._members:
            self._rouse(self._members)

    def _take_in(self, wake: Wake) -> None:
        self._latest = wake
        self._streams.note(wake)
        if self._recent is not None and not self._recent.add(wake, time.perf_counter()):
            self._recent = None

    def _forget(self, wake: Wake) -> None:
        if self._recent is not None and self._recent.stream.log == wake.log:
            self._recent.forget_before(wake.start)

    async def arrive(self, source: ReadFrom) -> tuple[View, int]:
        """What is to be seen from there, and since which hearing. Whatever was acknowledged before
        he came is seen: a wake-up may still be on its way, so what the feed remembers will not do.
        """
        await self._until_heard()
        hearing = self.hearing
        return await self._look(source, self._moment()), hearing

    async def _until_heard(self) -> None:
        """For a moment; who goes on without the channel is told when it is heard."""
        if self.hearing or self.closing:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECS):
                await self._heard.wait()

    async def look(self, source: ReadFrom) -> View:
        """All who ask for the same place share one look."""
        return await self._look(source, 0)

    async def _look(self, source: ReadFrom, moment: int) -> View:
        """The end of this moment is one's own."""
        if source is NOW:
            return await self._streams.look(self._name, source)
        key = (source, moment)
        return await self._looks.do(key, lambda: self._streams.look(self._name, source))

    def _moment(self) -> int:
        """Those who come in one turn of the event loop come before any look of theirs is sent."""
        if not self._moment_lasts:
            self._moment_lasts = True
            self._moments += 1
            self._loop.call_soon(self._end_moment)
        return self._moments

    def _end_moment(self) -> None:
        self._moment_lasts = False

    async def gather(self, member: Member, hearing: int, until: float | None) -> None:
        """Waits among the others until the time is over, or until he is let go."""
        if self.closing or hearing != self.hearing or not self._admits(member.view):
            return
        future = member.wait(self._loop)
        timer = None if until is None else self._loop.call_at(until, self._expire, member)
        self._join(member)
        try:
            await future
        finally:
            self._members.pop(member, None)
            if timer is not None:
                timer.cancel()

    def _expire(self, member: Member) -> None:
        """Those who came together have their end together, too."""
        member.is_late = True
        self._rouse([member])

    def _admits(self, view: View) -> bool:
        """False when there is something that must be looked up first."""
        recent = self._recent
        if recent is not None and recent.stream.log == view.stream.log:
            if recent.reaches_back_to(view.stream.at(view.end)):
                return True
            if recent.stream.tail > view.end:
                return False
        return view.at_tail and not self._tells_more_than(view)

    def _join(self, member: Member) -> None:
        recent, view = self._recent, member.view
        self._members[member] = None
        if recent is None or recent.stream.log != view.stream.log:
            self._recent = Recent(view.stream)
        elif recent.since(view.end):
            self._rouse([member])

    def _tells_more_than(self, view: View) -> bool:
        wake, log = self._latest, view.stream.log
        if wake is None or wake.log != log:
            return wake is not None and wake.log > log
        return wake.end > view.end or wake.state is not State.OPEN

    def _rouse(self, members: Iterable[Member]) -> None:
        is_first = not self._behind
        self._behind += members
        if is_first:
            self._turns.add(self)

    @property
    def is_waiting(self) -> bool:
        return bool(self._behind)

    def serve(self, credits: int) -> int:
        while self._behind and credits > 0:
            member = self._behind.pop()
            if member in self._members:
                credits -= self._serve(member)
        if self._has_more and not self._behind:
            self._has_more = False
            self._behind = list(self._members)
        return credits

    def _serve(self, member: Member) -> int:
        """What it cost. Who is ahead has looked, and waits for what comes after that."""
        recent, view = self._recent, member.view
        if recent is not None and recent.stream.log == view.stream.log and not member.is_late:
            news = recent.since(view.end)
            if news is None and view.end >= recent.stream.tail:
                return 0
            if news is not None and self._gives(member, news):
                return FRAME
        del self._members[member]
        member.let_go()
        return TASK

    def _gives(self, member: Member, news: News) -> bool:
        """One who fails must not keep the others from being served."""
        try:
            return member.take(news)
        except Exception:
            log.exception("a follower could not be served")
            return False

    def close(self) -> None:
        """Everyone is sent away."""
        self.closing = True
        self._heard.open()
        for member in self._members:
            member.let_go()
