"""docs/configuration.md and config/default.toml say what the server does, setting by setting."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from ds_server.cpus import usable_cpus
from ds_server.layers import SettingsError, load
from ds_server.settings import TYPES, Settings, flat

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "configuration.md").read_text()
SAMPLE = ROOT / "config" / "default.toml"

SECTION = re.compile(r"## `\[(\w+)\]`")
ROW = re.compile(r"\| `(\w+)` \| `(\w+)` \| (.+?) \| (.+?) \|")
BLOCK = re.compile(r"```(\w+)\n(.*?)```", re.DOTALL)
VARIABLE = re.compile(r"\b(DS_\w+__\w+)=(\S*)")

DEFAULTS = dict(flat(Settings()))
COMPUTED = {"server.workers": "the CPUs it may use"}


@dataclass(frozen=True)
class Row:
    variable: str
    default: str
    meaning: str


def documented() -> dict[str, Row]:
    rows: dict[str, Row] = {}
    section = ""
    for line in PAGE.splitlines():
        if heading := SECTION.fullmatch(line):
            section = heading[1]
        elif line.startswith("## "):
            section = ""
        elif section and (row := ROW.fullmatch(line)):
            assert f"{section}.{row[1]}" not in rows, f"{section}.{row[1]} is there twice"
            rows[f"{section}.{row[1]}"] = Row(row[2], row[3], row[4])
    return rows


ROWS = documented()


def blocks(language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(PAGE) if kind == language]


def toml_value(text: str) -> object:
    value = tomllib.loads(f"value = {text}")["value"]
    return tuple(value) if isinstance(value, list) else value


def shown(name: str, default: str) -> object:
    """The default that a cell of the page tells of."""
    if name in COMPUTED:
        assert default == COMPUTED[name]
        return usable_cpus()
    if default == "not set":
        return None
    literal = re.fullmatch(r"`(.+)`", default)
    assert literal, f"{name}: the default {default} is not written as code"
    return toml_value(literal[1])


def test_the_page_has_every_setting_and_no_other() -> None:
    assert set(ROWS) == set(TYPES)


@pytest.mark.parametrize("name", sorted(TYPES))
def test_each_setting_is_documented_as_it_is(name: str) -> None:
    row = ROWS[name]
    assert row.variable == f"DS_{name.upper().replace('.', '__')}"
    assert shown(name, row.default) == DEFAULTS[name]
    assert type(shown(name, row.default)) is type(DEFAULTS[name])
    assert row.meaning.endswith(".")


def test_the_sample_file_changes_nothing() -> None:
    loaded = load(environ={}, directory=SAMPLE.parent)
    assert tomllib.loads(SAMPLE.read_text()) == {name.split(".")[0]: {} for name in TYPES}
    assert loaded.settings == Settings()


def test_the_sample_file_shows_every_default(tmp_path: Path) -> None:
    uncommented = tmp_path / "all.toml"
    uncommented.write_text(re.sub(r"^#(?=\w+ =)", "", SAMPLE.read_text(), flags=re.MULTILINE))
    loaded = load(config=uncommented, environ={}, directory=tmp_path)
    assert set(loaded.origins.values()) == {str(uncommented)}
    for name, value in flat(loaded.settings):
        if DEFAULTS[name] is not None and name not in COMPUTED:
            assert value == DEFAULTS[name], name


@pytest.mark.parametrize("example", blocks("toml"))
def test_the_examples_of_files_are_accepted(example: str, tmp_path: Path) -> None:
    (tmp_path / "local.toml").write_text(example)
    assert load(environ={}, directory=tmp_path).settings != Settings()


@pytest.mark.parametrize("example", [text for text in blocks("sh") if "DS_" in text])
def test_the_examples_of_variables_are_accepted(example: str, tmp_path: Path) -> None:
    environ = dict(VARIABLE.findall(example.replace("$(mktemp -d)", "/somewhere")))
    assert load(environ=environ, directory=tmp_path).settings != Settings()


MISTAKES: list[tuple[dict[str, str], str]] = [
    ({"DS_SERVER__PORT": "many"}, ""),
    ({"DS_SERVER__PROT": "4437"}, ""),
    ({}, "[sever]\n"),
    ({"DS_TLS__CERT_PATH": "cert.pem"}, ""),
]


def test_the_complaints_on_the_page_are_those_that_are_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config").mkdir()
    made = []
    for environ, local in MISTAKES:
        (tmp_path / "config" / "local.toml").write_text(local)
        with pytest.raises(SettingsError) as caught:
            load(environ=environ)
        made.append(f"ds-server: {caught.value}\n")
    assert "".join(made) in blocks("text")
