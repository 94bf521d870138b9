"""Jobs of Spark at work for a minute, some of them killed, beside clients. Each trial has a server
of its own; they have the same minute, and a failure says whose it is."""

import pytest
from pyspark.sql import SparkSession
from support import compaction_fire, snapshot_fire, trial


@pytest.mark.timeout(snapshot_fire.FIRE_SECS + 2 * snapshot_fire.START_SECS)
async def test_nobody_notices_compactions_and_snapshots_and_the_deaths_of_some(
    spark: SparkSession,
) -> None:
    await trial.at_once(
        compactions=compaction_fire.nobody_notices(spark),
        snapshots=snapshot_fire.nobody_notices(spark),
    )
