"""What is typed, and what is printed."""

import os
import tomllib
from pathlib import Path

import pytest

from ds_server import cli
from ds_server.settings import Settings
from tiering.errors import Refused

Served = list[Settings]


@pytest.fixture(autouse=True)
def _no_settings_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for variable in [name for name in os.environ if name.startswith("DS_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Served:
    """What the server would have been started with."""
    calls: Served = []

    async def serve(settings: Settings) -> None:
        calls.append(settings)

    monkeypatch.setattr(cli, "serve", serve)
    monkeypatch.setattr(cli.logs, "configure", lambda log: None)
    return calls


@pytest.mark.parametrize("arguments", [[], ["serve"]])
def test_the_command_alone_serves(arguments: list[str], served: Served) -> None:
    assert cli.main(arguments) == 0
    assert served == [Settings()]


@pytest.mark.parametrize("command", [[], ["serve"]])
def test_profile_and_file_are_read(command: list[str], served: Served, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "night.toml").write_text("[server]\nport = 1\nworkers = 7\n")
    (tmp_path / "own.toml").write_text("[server]\nport = 2\n")
    assert cli.main([*command, "--profile", "night", "--config", "own.toml"]) == 0
    assert (served[0].server.port, served[0].server.workers) == (2, 7)


def test_a_bad_setting_is_one_line_and_exit_code_2(
    served: Served, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", "many")
    assert cli.main([]) == 2
    assert served == []
    assert capsys.readouterr().err == (
        "ds-server: DS_SERVER__PORT: server.port must be a port from 0 (any free one) to 65535, "
        "not 'many'\n"
    )


def test_a_refusal_is_one_line_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def refuse(settings: Settings) -> None:
        raise Refused("the moon is full")

    monkeypatch.setattr(cli, "serve", refuse)
    monkeypatch.setattr(cli.logs, "configure", lambda log: None)
    assert cli.main([]) == 1
    assert capsys.readouterr().err == "ds-server: the moon is full\n"


def test_config_names_the_origin_of_each_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DS_SERVER__PORT", "8080")
    assert cli.main(["config"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split("#")[1].strip() for line in lines if "port =" in line] == ["DS_SERVER__PORT"]
    assert len({line.rindex("  # ") for line in lines if "  # " in line}) == 1


def test_config_prints_toml_that_can_be_used_as_a_file(
    tmp_path: Path, served: Served, capsys: pytest.CaptureFixture[str]
) -> None:
    cli.main(["config"])
    printed = capsys.readouterr().out
    assert tomllib.loads(printed)["server"]["port"] == 4437
    (tmp_path / "own.toml").write_text(printed)
    assert cli.main(["--config", "own.toml"]) == 0
    assert served == [Settings()]


def test_config_hides_credentials(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DS_REDIS__URL", "redis://user:confidential@host:6379/0")
    cli.main(["config"])
    printed = capsys.readouterr().out
    assert "confidential" not in printed
    assert "redis://***@host:6379/0" in printed


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    printed = capsys.readouterr().out
    assert "serve" in printed
    assert "config" in printed
