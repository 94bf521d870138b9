"""What all processes of a server use at this moment."""

from loadtest.processes import Tree


def memory_figures(server: Tree | None) -> dict[str, float]:
    if server is None:
        return {}
    memory = server.memory()
    if not memory.server:
        return {}
    store = {"store_mb": memory.store} if memory.store else {}
    return {"server_mb": memory.server, **store}
