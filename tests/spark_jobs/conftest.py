"""One Spark for all tests: it takes ten seconds to start."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support.needs import lack, need

from spark import register

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that starts sooner and will not live long."""

TWICE = "local[2,2]"
"""Two tasks at once, and each is tried twice, as clusters do; `local[2]` would try them once."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    need_java()
    folder = tmp_path_factory.mktemp("spark")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        SparkSession.builder.master(TWICE)
        .appName("ds-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", QUICK)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


def need_java() -> None:
    """Where Spark looks for it: JAVA_HOME before the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home is None:
        need("java")
    elif not (Path(home) / "bin" / "java").exists():
        lack(f"JAVA_HOME is {home}, and there is no Java in it")


@pytest.fixture(autouse=True)
def no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
