"""What handlers find in the application."""

from aiohttp import web

from ds_server.live.feed import Feeds
from ds_server.settings import Settings
from tiering.streams import Streams

SETTINGS = web.AppKey("settings", Settings)
STREAMS = web.AppKey("streams", Streams)
FEEDS = web.AppKey("feeds", Feeds)
