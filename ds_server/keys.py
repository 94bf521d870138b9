"""What handlers find in the application."""

import asyncio

from aiohttp import web

from ds_server.live.feed import Feeds
from ds_server.settings import Settings
from tiering.streams import Streams

LEAVING = web.AppKey("leaving", asyncio.Event)
SETTINGS = web.AppKey("settings", Settings)
STREAMS = web.AppKey("streams", Streams)
FEEDS = web.AppKey("feeds", Feeds)
