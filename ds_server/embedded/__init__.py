"""The private Redis of a server that was given none: found, started, adopted, kept alive."""

from ds_server.embedded.directory import DataDirectory
from ds_server.embedded.engines import Engine
from ds_server.embedded.redis import EmbeddedRedis

__all__ = ["DataDirectory", "EmbeddedRedis", "Engine"]
