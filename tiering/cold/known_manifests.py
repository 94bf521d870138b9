"""The manifests of a bucket. Those that a listing shows to be the same are not read again."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tiering.cold import manifest as manifests
from tiering.cold.keys import manifest_key, parse_manifest_key, segment
from tiering.cold.manifest import Manifest
from tiering.errors import Corrupt
from tiering.gather import gather
from tiering.objects.store import ObjectMissing, ObjectStore


@dataclass(slots=True)
class Memory:
    """Manifests by their keys, with the tag of what was read. Outlives the store."""

    read: dict[str, tuple[str, Manifest]] = field(default_factory=dict)

    def forget_all_but(self, listed: set[str], prefix: str) -> None:
        for key in [key for key in self.read if key.startswith(prefix) and key not in listed]:
            del self.read[key]


class KnownManifests:
    def __init__(
        self,
        store: ObjectStore,
        memory: Memory | None = None,
        damaged: dict[str, Corrupt] | None = None,
    ) -> None:
        """What cannot be read is noted in `damaged` by the name of its stream, and so is who reads
        through it; without it, that is an error."""
        self._store = store
        self._memory = memory or Memory()
        self._damaged = damaged

    async def newest(self, folder: str, wants: Callable[[str], bool]) -> dict[str, Manifest]:
        """By name; the newest log of a name speaks for it."""
        newest: dict[str, tuple[int, str]] = {}
        async for info in self._store.list(f"manifest/{folder}"):
            found = parse_manifest_key(info.key)
            if found is not None and wants(found[0]):
                name, log = found
                newest[name] = max((log, info.tag), newest.get(name, (0, "")))
        keys = {manifest_key(name, log) for name, (log, _) in newest.items()}
        self._memory.forget_all_but(keys, f"manifest/{folder}")
        read = await gather(self._manifest(name, *found) for name, found in newest.items())
        return {manifest.name: manifest for manifest in read if manifest is not None}

    async def with_sources(
        self, streams: Iterable[Manifest], known: dict[str, Manifest]
    ) -> dict[str, Manifest]:
        """The manifests of all streams that these read through, with those that are known."""
        found = dict(known)
        damaged = {} if self._damaged is None else self._damaged
        for stream in streams:
            reader: Manifest | None = stream
            while reader is not None and (parent := reader.parent) is not None:
                if parent.name not in found and parent.name not in damaged:
                    found |= await self.newest(f"{segment(parent.name)}/", lambda name: True)
                if parent.name in damaged:
                    damaged[stream.name] = damaged[parent.name]
                reader = found.get(parent.name)
        return found

    async def _manifest(self, name: str, log: int, tag: str) -> Manifest | None:
        key = manifest_key(name, log)
        seen = self._memory.read.get(key)
        if seen is not None and tag and seen[0] == tag:
            return seen[1]
        try:
            manifest = manifests.decode(await self._store.get(key), key)
        except ObjectMissing:
            return None
        except Corrupt as error:
            if self._damaged is None:
                raise
            self._damaged[name] = error
            return None
        # What is read may be newer than what was listed: then the next listing tells another tag.
        self._memory.read[key] = (tag, manifest)
        return manifest
