"""What edges can still read of a deleted stream, though nobody is about to take it back."""

from tiering.cold.inventory import Holdings
from tiering.cold.keys import parse_chunk_key
from tiering.hot.pipe import Pipe
from tiering.hot.recalls import RecallDesk
from tiering.hot.retention import RetentionDesk
from tiering.hot.sealing import Survey
from tiering.objects.store import ObjectStore


def is_exposed(survey: Survey) -> bool:
    """There for its forks alone, and an edge that finds a chunk of it would serve that; one of a
    stream with a lifetime says that the server must be asked."""
    return survey.manifest.deleted and not survey.manifest.ends


class Exposure:
    def __init__(self, pipe: Pipe, store: ObjectStore) -> None:
        self._recalls = RecallDesk(pipe)
        self._retention = RetentionDesk(pipe)
        self._store = store

    async def keys(self, survey: Survey | None, holdings: Holdings) -> list[str]:
        if survey is None or not is_exposed(survey) or await self._recalls.of(survey.name):
            return []
        going = await self._going(survey.name)
        own = (key for key in holdings.bodies if _log(key) in survey.logs and key not in going)
        return [key for key in sorted(own) if await self._store.head(key) is not None]

    async def _going(self, name: str) -> set[str]:
        """What the janitor will remove."""
        shed = await self._retention.shed(name)
        return {key for member in shed for key in self._retention.keys_of(name, member)}


def _log(key: str) -> int | None:
    chunk = parse_chunk_key(key)
    return chunk[1] if chunk is not None else None
