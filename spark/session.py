"""A Spark of our own, for commands."""

import os
import sys
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark import SparkConf
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tiering.errors import Refused

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_QUIET = Path(__file__).with_name("log4j2.properties")


def start(master: str | None, name: str) -> SparkSession:
    """`master` goes before what spark-submit or spark-defaults.conf say, and all cores of this
    machine behind it."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    try:
        return _start(master, name)
    except (PySparkException, Py4JError) as error:
        reason = str(error).strip().splitlines()[-1].strip()
        raise Refused(f"Spark does not start (it needs Java 17 or 21): {reason}") from error


def _start(master: str | None, name: str) -> SparkSession:
    known = SparkConf()
    chosen = master or known.get("spark.master") or "local[*]"
    builder = SparkSession.builder.master(chosen).appName(name)
    for noise in ("spark.ui.enabled", "spark.ui.showConsoleProgress"):
        builder = builder.config(noise, "false")
    options = f"{known.get(_JAVA_OPTIONS, '')} -Dlog4j2.configurationFile={_QUIET.as_uri()}"
    builder = builder.config(_JAVA_OPTIONS, options.strip())
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
