"""What is followed in a bucket of S3 is what HTTP shows."""

import contextlib

import pytest
from pyspark.sql.types import StructField, StructType
from support.following import COMPARED, Row
from support.object_servers import ObjectServer
from support.repairs import NEVER, seal_all
from support.server import RunningServer
from support.spark_world import World
from support.wire import Wire

from spark.batches import COLUMNS
from spark.follow_options import FollowOptions
from spark.following import FollowingReader

pytestmark = pytest.mark.timeout(240)

CHUNK = 256


def test_a_bucket_of_s3_is_followed_as_a_directory_is(seaweedfs: ObjectServer) -> None:
    """By the reader alone, as Spark asks it."""
    settings = NEVER | seaweedfs.settings("following")
    options = {
        "url": settings["DS_OBJECTS__URL"],
        "endpoint": seaweedfs.endpoint,
        "region": "us-east-1",
        "accessKeyId": seaweedfs.environment["AWS_ACCESS_KEY_ID"],
        "secretAccessKey": seaweedfs.environment["AWS_SECRET_ACCESS_KEY"],
        "maxBytesPerTrigger": "900",
    }
    with RunningServer(chunk_bytes=CHUNK, env=settings) as server, Wire(server.url) as wire:
        world = World(wire, seed=61)
        with contextlib.closing(Asked(options)) as asked:
            for _ in range(2):
                world.populate(6)
                world.grow()
                seal_all(server)
                asked.read_all()
                assert asked.rows() == world.rows()
            assert asked.batches > 4


class Asked:
    """A reader that is asked for everything there is, batch by batch."""

    def __init__(self, options: dict[str, str]) -> None:
        schema = StructType([StructField(name, COLUMNS[name]) for name in COMPARED])
        self._reader = FollowingReader(FollowOptions.parse(options), schema)
        self._at = self._reader.initialOffset()
        self._rows: list[Row] = []
        self.batches = 0

    def read_all(self) -> None:
        limit = self._reader.getDefaultReadLimit()
        while (end := self._reader.latestOffset(self._at, limit)) != self._at:
            for partition in self._reader.partitions(self._at, end):
                for batch in self._reader.read(partition):
                    self._rows += batch.to_pylist()
            self._at = end
            self.batches += 1

    def close(self) -> None:
        self._reader.stop()

    def rows(self) -> list[Row]:
        return sorted(self._rows, key=lambda row: (row["stream"], row["position"]))
