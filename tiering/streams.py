"""Everything that can be done with a stream, wherever its bytes live."""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from tiering.buckets import NO_SUCH_BUCKET, Buckets
from tiering.cold.keys import manifest_key
from tiering.cold.manifest import UNKNOWN, tombstone
from tiering.errors import Conflict, Deleted, NotFound, StreamError, Unavailable
from tiering.forks import SOURCE_DELETED, ForkPlace, Forks, SourceMoved, Wishes
from tiering.hot.connection import Reply
from tiering.hot.graveyard import Graveyard
from tiering.hot.pipe import Receiver
from tiering.hot.sealing import SealingDesk, Survey
from tiering.hot.tail import TailCache
from tiering.hot.terms import Append, Appended, Created, Expired, Hidden, Remains
from tiering.hot.tier import HotTier
from tiering.hot.wake import Wake
from tiering.messages import Payload
from tiering.objects.store import ObjectStore
from tiering.offset import ReadFrom
from tiering.reader import Reader
from tiering.registry import Registry
from tiering.stream import Configuration, ContentType, View

log = logging.getLogger(__name__)

_MOST_LOOKS = 5

Payloads = Callable[[ContentType], Payload]


class Streams:
    def __init__(
        self,
        tier: HotTier,
        tail: TailCache,
        reader: Reader,
        forks: Forks,
        desk: SealingDesk,
        store: ObjectStore,
        registry: Registry,
        graves: Graveyard,
        buckets: Buckets,
    ) -> None:
        self._tier = tier
        self._tail = tail
        self._reader = reader
        self._forks = forks
        self._desk = desk
        self._store = store
        self._registry = registry
        self._graves = graves
        self._buckets = buckets

    async def create(self, name: str, wanted: Configuration, payload: Payload) -> Created:
        return await self._enter(name, lambda log: self._tier.create(name, wanted, payload, log))

    async def fork(self, name: str, place: ForkPlace, wanted: Wishes, payload: Payloads) -> Created:
        """A stream that shares another's history up to a place; no byte is copied."""
        for _ in range(_MOST_LOOKS):
            try:
                return await self._fork(name, place, wanted, payload)
            except SourceMoved:
                log.info("%s begins a fork anew: %s is not what it was", name, place.source)
        raise Unavailable("The source of the fork changes too fast.")

    async def _fork(
        self, name: str, place: ForkPlace, wanted: Wishes, payload: Payloads
    ) -> Created:
        try:
            source, border = await self._forks.find(place)
        except Expired:
            raise await self._absence_of_source(place.source) from None
        configuration = wanted.based_on(source)
        body = payload(configuration.content_type)
        if border == 0:
            return await self.create(name, configuration, body)
        return await self._enter(
            name,
            lambda log: self._forks.make(name, log, source, border, place, configuration, body),
        )

    async def _enter(self, name: str, make: Callable[[int], Awaitable[Created]]) -> Created:
        """Its bucket knows of a stream before it is there."""
        number = await self._tier.mint()
        await self._buckets.admit(name, number)
        try:
            created = await make(number)
        except Unavailable:
            raise  # It may have been made.
        except (StreamError, SourceMoved):
            await self._buckets.refuse(name, number)
            raise
        if not created.is_new:
            await self._buckets.refuse(name, number)
        elif not await self._buckets.confirm(name, number):
            await self.delete(name)
            raise NotFound(NO_SUCH_BUCKET)
        else:
            await self._tell(name, created)
        return created

    async def _tell(self, name: str, created: Created) -> None:
        if created.replaced_expired:
            await self._is_gone(name, created.tail.log - 1, None)
        await self._registry.created(name, created.content_type)

    async def append(self, name: str, append: Append) -> Appended:
        try:
            return await self._tier.append(name, append)
        except (Expired, Hidden) as reason:
            raise await self._absence(name, reason) from None

    def start_append(self, name: str, append: Append, receiver: Receiver) -> bool:
        """See `HotTier.start_append`."""
        return self._tier.start_append(name, append, receiver)

    def settle(self, name: str, append: Append, reply: Reply) -> tuple[Appended, float] | None:
        return self._tier.settle(name, append, reply)

    async def look(self, name: str, source: ReadFrom, *, renew: bool = True) -> View:
        try:
            return await self._reader.look(name, source, renew=renew)
        except (Expired, Hidden) as reason:
            raise await self._absence(name, reason) from None

    def read(self, view: View) -> AsyncIterator[bytes]:
        """The stored bytes of a view, in pieces, from wherever they are by now."""
        return self._reader.read(view)

    async def read_whole(self, view: View) -> bytes:
        return b"".join([piece async for piece in self.read(view)])

    def note(self, wake: Wake) -> None:
        self._tail.note(wake)

    async def object_address(self, view: View, *, signed: bool) -> str | None:
        """Where the object is whose bytes are exactly this view's body, if there is one."""
        if view.is_empty or view.object is None or view.start != view.object.start:
            return None
        return await self._store.address(view.object.key, signed=signed)

    async def delete(self, name: str) -> None:
        """What object storage holds of a stream is declared dead before the answer."""
        survey = await self._desk.survey(name)
        if survey is not None and survey.has_objects:
            await self._put_tombstone(survey)
        try:
            was_alive, remains = await self._tier.delete(name, survey.log if survey else None)
        except Hidden:
            raise Deleted from None
        await self._is_gone(name, survey.log if survey else 0, remains)
        if not was_alive:
            raise NotFound("There is no such stream.")

    async def _put_tombstone(self, survey: Survey) -> None:
        """Redis forgets what the manifest said before: should the deletion end here, the sealer
        writes it anew."""
        await self._desk.manifest(survey.manifest, UNKNOWN)
        dead = tombstone(survey.manifest)
        await self._store.put(manifest_key(dead.name, dead.log), dead.encode())

    async def ping(self) -> None:
        await self._tier.ping()

    async def remove_expired(self, name: str) -> None:
        """Hidden, when forks still read through it."""
        try:
            remains = await self._tier.remove_expired(name)
        except Hidden:
            await self._registry.deleted(name)
            raise
        if remains is not None:
            await self._is_gone(name, remains.log, remains)

    async def check_ties(self, survey: Survey) -> None:
        """With the bucket it is in, the source it reads through, and the forks that read through
        it, after a crash in between."""
        await self._buckets.check(survey)
        await self._forks.renew(survey)
        if survey.lent:
            for remains in await self._forks.check(survey.name):
                await self._remember(remains.name)

    async def _absence(self, name: str, reason: Expired | Hidden) -> StreamError:
        try:
            if isinstance(reason, Expired):
                await self.remove_expired(name)
                return NotFound("There is no such stream.")
        except Hidden:
            log.info("%s has expired, and forks of it live on", name)
        return Deleted()

    async def _absence_of_source(self, name: str) -> StreamError:
        absence = await self._absence(name, Expired())
        return Conflict(SOURCE_DELETED) if isinstance(absence, Deleted) else absence

    async def _is_gone(self, name: str, number: int, remains: Remains | None) -> None:
        """The stream that had that log. What does not get through here is found by the sweep."""
        try:
            await self._remember(name)
            await self._buckets.forget(name, number)
            while remains is not None:
                remains = await self._forks.release_parent(remains)
                if remains is not None:
                    await self._remember(remains.name)
        except Unavailable as error:
            log.warning("the sweep will clean up after %s: %s", name, error)
        await self._registry.deleted(name)

    async def _remember(self, name: str) -> None:
        await self._graves.remember(name, 0)
