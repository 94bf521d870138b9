"""What `ds-spark` says where something of Spark is missing."""

import pytest
from pyspark.errors import PySparkRuntimeError

from spark import command, session
from tiering.errors import Refused


def test_without_spark_it_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    assert command.main() == 1
    assert capsys.readouterr().err == "ds-spark: Spark is missing here: pip install '.[spark]'\n"


def test_without_java_it_says_what_spark_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(master: str | None, name: str) -> None:
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(session, "_start", fail)
    with pytest.raises(Refused, match="needs Java 17 or 21"):
        session.start(None, "a test")
