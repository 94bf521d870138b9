"""What happens when somebody else acts between two commands."""

from collections.abc import Awaitable, Callable

from tiering.hot.connection import Argument, Reply
from tiering.hot.pipe import Pipe


class Interrupted(Pipe):
    """Somebody else acts after the first command that is sent."""

    act: Callable[[], Awaitable[object]] | None = None

    async def call(self, *command: Argument) -> Reply:
        reply = await super().call(*command)
        await self._interrupt()
        return reply

    async def run(self, verb: str, keys: tuple[str, ...], *arguments: Argument) -> Reply:
        reply = await super().run(verb, keys, *arguments)
        await self._interrupt()
        return reply

    async def _interrupt(self) -> None:
        act, self.act = self.act, None
        if act is not None:
            await act()
