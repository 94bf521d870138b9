"""One Spark for all tests: it takes ten seconds to start."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from support import object_servers
from support.needs import lack, need
from support.object_servers import ObjectServer
from support.quick_spark import OPTIONS, PYTHON, SMALL

from spark import register

TWICE = "local[2,2]"
"""Two tasks at once, and each is tried twice, as clusters do; `local[2]` would try them once."""


@pytest.fixture(scope="session")
def spark(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    folder = tmp_path_factory.mktemp("spark")
    os.environ |= PYTHON
    session = (
        SparkSession.builder.master(TWICE)
        .appName("ds-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", OPTIONS)
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config(map=SMALL)
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def java() -> None:
    """Where Spark looks for it: JAVA_HOME before the PATH."""
    home = os.environ.get("JAVA_HOME")
    if home is None:
        need("java")
    elif not (Path(home) / "bin" / "java").exists():
        lack(f"JAVA_HOME is {home}, and there is no Java in it")


@pytest.fixture(scope="session")
def seaweedfs() -> Iterator[ObjectServer]:
    """One for all tests: it takes three seconds to end. Each has a prefix of its own there."""
    with object_servers.seaweedfs() as store:
        yield store


@pytest.fixture(autouse=True)
def no_aws_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/dev/null")
