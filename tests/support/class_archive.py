"""`python -m support.class_archive` archives the classes that Java loads for Spark: with them
it starts in half the time."""

import os
import shutil
import sys
import tempfile
from pathlib import Path

from pyspark.sql import SparkSession
from support.quick_spark import BRIEF, CLASSES


def main() -> int:
    if "JAVA_HOME" not in os.environ and shutil.which("java") is None:
        return 1
    CLASSES.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / CLASSES.name
        _work(_session(Path(folder), made), Path(folder))
        shutil.move(made, CLASSES)
    return 0


def _session(folder: Path, archive: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.driver.extraJavaOptions", f"{BRIEF} -XX:ArchiveClassesAtExit={archive}")
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
