"""How a Spark starts sooner that will not live long."""

import sys
from pathlib import Path

CLASSES = Path(sys.prefix) / "spark.jsa"
"""See `support.class_archive`. Java takes no notice of one that is not its own."""
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xlog:disable"
OPTIONS = f"{BRIEF} -XX:SharedArchiveFile={CLASSES}" if CLASSES.exists() else BRIEF
PYTHON = {
    "PYSPARK_PYTHON": str(Path(__file__).with_name("spark_python.sh")),
    "SPARK_TESTS_PYTHON": sys.executable,
}
QUICK = PYTHON | {"SPARK_SUBMIT_OPTS": OPTIONS}
"""For the environment of commands that start Spark."""
SMALL = {"spark.sql.codegen.wholeStage": "false", "spark.sql.shuffle.partitions": "2"}
"""Compiling a small query takes longer than interpreting it; the commands compile."""
