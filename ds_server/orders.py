"""What parent and worker say to each other, over a socket that is the worker's standard input.

The parent sends the orders as one line and then keeps silent: the end of the connection
tells the worker that it is orphaned. The worker answers once: ready, or why it refuses.
"""

import msgspec

from ds_server.settings import Settings

READY = "ready"


class Orders(msgspec.Struct, frozen=True):
    settings: Settings
    redis_url: str
    is_first: bool = True
