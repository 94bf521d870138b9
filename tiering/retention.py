"""Removes what a stream no longer retains, after a time of grace: nothing that a fork needs."""

from tiering.hot.retention import RetentionDesk
from tiering.objects.store import ObjectStore

# The manifest is written when the sealer comes by.
_PATIENCE_MS = 2_000


class Retention:
    """Every step can be repeated, and may stop anywhere."""

    def __init__(self, desk: RetentionDesk, store: ObjectStore, grace_ms: int) -> None:
        self._desk = desk
        self._store = store
        self._grace_ms = grace_ms

    async def clean(self, name: str, now_ms: int) -> int | None:
        """Returns when to come again; the sweep looks after what waits for forks to go."""
        trimmed = await self._desk.trim(name, now_ms - self._grace_ms)
        if trimmed.outcome == "unnoted":
            # Should Redis be lost now, the snapshot before this one is in force again.
            return now_ms + _PATIENCE_MS
        due = [since + self._grace_ms for since in await self._remove(name, now_ms)]
        if trimmed.outcome == "waiting":
            due.append(trimmed.since_ms + self._grace_ms)
        return min(due, default=None)

    async def _remove(self, name: str, now_ms: int) -> list[int]:
        """What must wait longer."""
        shed = await self._desk.shed(name)
        ripe = [member for member, since in shed.items() if since + self._grace_ms <= now_ms]
        doomed = await self._desk.doom(name, ripe) if ripe else []
        if doomed:
            keys = [key for member in doomed for key in self._desk.keys_of(name, member)]
            await self._store.delete(keys)
            await self._desk.forget(name, doomed)
        return [since for member, since in shed.items() if member not in set(ripe)]
