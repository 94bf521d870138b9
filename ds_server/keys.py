"""What handlers find in the application."""

import asyncio

from aiohttp import web

from ds_server.live.feeds import Feeds
from ds_server.live.frames import Frames
from ds_server.live.turns import Turns
from ds_server.settings import Settings
from tiering.buckets import Buckets
from tiering.recalls import Recalls
from tiering.snapshots import Snapshots
from tiering.streams import Streams
from tiering.transcript import Transcript

LEAVING = web.AppKey("leaving", asyncio.Event)
SETTINGS = web.AppKey("settings", Settings)
BUCKETS = web.AppKey("buckets", Buckets)
SNAPSHOTS = web.AppKey("snapshots", Snapshots)
TRANSCRIPT = web.AppKey("transcript", Transcript)
STREAMS = web.AppKey("streams", Streams)
TURNS = web.AppKey("turns", Turns)
RECALLS = web.AppKey("recalls", Recalls)
FEEDS = web.AppKey("feeds", Feeds)
FRAMES = web.AppKey("frames", Frames)
