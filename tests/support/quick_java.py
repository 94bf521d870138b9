"""A Java that starts sooner and will not live long.

`python tests/support/quick_java.py` makes an archive of the classes that Spark needs: with it Spark
starts in half the time. Java takes no notice of one that is not its own.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession

ARCHIVE = Path(sys.prefix) / "spark.jsa"
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
if ARCHIVE.exists():
    OPTIONS += f" -XX:SharedArchiveFile={ARCHIVE}"
QUICK = {"SPARK_SUBMIT_OPTS": OPTIONS}
"""For commands that start Spark."""


def main() -> int:
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return 1
    ARCHIVE.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / ARCHIVE.name
        _work(_session(Path(folder), made), Path(folder))
        shutil.move(made, ARCHIVE)
    return 0


def _session(folder: Path, archive: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.driver.extraJavaOptions", f"{OPTIONS} -XX:ArchiveClassesAtExit={archive}")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder / "local"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )


def _work(session: SparkSession, folder: Path) -> None:
    """A little of what tests do; Java writes the archive when it ends."""
    gateway = session.sparkContext._gateway
    session.sparkContext.parallelize(range(4), 2).map(str).collect()
    session.range(10).selectExpr("id", "string(id) AS value").write.parquet(f"{folder}/in")
    query = (
        session.readStream.schema("id BIGINT, value STRING")
        .parquet(f"{folder}/in")
        .writeStream.option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/out")
    )
    query.awaitTermination()
    session.read.parquet(f"{folder}/out").groupBy("value").count().orderBy("value").collect()
    session.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()


if __name__ == "__main__":
    sys.exit(main())
