"""Durable Streams in Apache Spark.

from spark import register

register(session)
session.read.format("durable_streams").load("s3://bucket/prefix")
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: "SparkSession") -> None:
    """Makes the format `durable_streams` known to the session."""
    from spark.source import DurableStreams

    session.dataSource.register(DurableStreams)
