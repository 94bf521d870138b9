"""Names of streams, by the time (ms) when somebody should look after them."""

from tiering.hot.pipe import Pipe


class Agenda:
    """A hint: what is to be done stands beside the stream's keys, and is found by the sweep."""

    def __init__(self, pipe: Pipe, key: str, turn_key: str) -> None:
        self._pipe = pipe
        self._key = key
        self._turn_key = turn_key

    async def now_ms(self) -> int:
        seconds, microseconds = await self._pipe.call("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    async def takes_turn(self, holder: str, milliseconds: int) -> bool:
        """Saves two workers from doing the same; it protects nothing."""
        if await self._pipe.call("SET", self._turn_key, holder, "NX", "PX", milliseconds):
            return True
        return bool(await self._pipe.call("GET", self._turn_key) == holder.encode())

    async def remember(self, name: str, due_ms: int) -> None:
        await self._pipe.call("ZADD", self._key, due_ms, name)

    async def remind(self, name: str) -> None:
        """Whose time is known already keeps it."""
        await self._pipe.call("ZADD", self._key, "NX", 0, name)

    async def due(self, until_ms: int, limit: int = -1) -> list[str]:
        found = await self._pipe.call(
            "ZRANGEBYSCORE", self._key, "-inf", until_ms, "LIMIT", 0, limit
        )
        return [name.decode() for name in found]

    async def settle(self, name: str) -> None:
        await self._pipe.call("ZREM", self._key, name)

    async def count(self) -> int:
        return int(await self._pipe.call("ZCARD", self._key))
