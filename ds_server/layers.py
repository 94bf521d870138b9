"""Where settings come from: defaults, TOML files, the environment; the later wins."""

import difflib
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_origin

import msgspec

from ds_server.settings import SECRETS, SECTIONS, TYPES, Settings, masked


class SettingsError(Exception):
    """The message is one line that names the file or variable to mend."""


@dataclass(frozen=True, slots=True)
class Loaded:
    settings: Settings
    origins: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Given:
    """A value as somebody wrote it, and where."""

    value: object
    origin: str
    is_text: bool = False


def load(
    profile: str | None = None,
    config: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    directory: Path = Path("config"),
) -> Loaded:
    given: dict[str, Given] = {}
    for path in _files(profile, config, directory):
        given.update(_from_file(path))
    given.update(_from_environment(environ))
    values = {name: _converted(name, one) for name, one in given.items()}
    origins = {name: given[name].origin if name in given else "default" for name in TYPES}
    return Loaded(_assembled(values, origins), origins)


def _files(profile: str | None, config: Path | None, directory: Path) -> Iterator[Path]:
    """The files in force. Those that were asked for by name must be there."""
    default, local = directory / "default.toml", directory / "local.toml"
    if default.is_file():
        yield default
    if profile is not None:
        yield directory / f"{profile}.toml"
    if local.is_file():
        yield local
    if config is not None:
        yield config


def _from_file(path: Path) -> Iterator[tuple[str, Given]]:
    for section, table in _parsed(path).items():
        if section not in SECTIONS:
            raise SettingsError(f"{path}: unknown section [{section}]{_hint(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise SettingsError(f"{path}: [{section}] must be a table of settings")
        for key, value in table.items():
            yield _known(f"{section}.{key}", str(path)), Given(value, str(path))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except ValueError as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error


def _from_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, Given]]:
    for variable, text in environ.items():
        if match := re.fullmatch(r"DS_(.*?)__(.*)", variable, re.DOTALL):
            name = ".".join(match.groups()).lower()
            yield _known(name, variable), Given(text, variable, is_text=True)


def _known(name: str, origin: str) -> str:
    if name not in TYPES:
        raise SettingsError(f"{origin}: unknown setting {name}{_hint(name, TYPES)}")
    return name


def _hint(name: str, known: Mapping[str, object]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""


def _converted(name: str, given: Given) -> object:
    wanted = TYPES[name]
    value = _untexted(given.value, wanted) if given.is_text else given.value
    try:
        return msgspec.convert(value, wanted, strict=not given.is_text)
    except msgspec.ValidationError as error:
        shown = _shown(name, given.value)
        meaning = wanted.__metadata__[0].description
        raise SettingsError(f"{given.origin}: {name} must be {meaning}, not {shown!r}") from error


def _shown(name: str, value: object) -> object:
    if name in SECRETS:
        return "***"
    return masked(str(value)) if name == "redis.url" else value


def _untexted(text: object, wanted: Any) -> object:
    """An empty variable is an empty list, or a value that is not set."""
    if get_origin(wanted.__origin__) is tuple:
        return [part.strip() for part in str(text).split(",") if part.strip()]
    return None if text == "" and type(None) in get_args(wanted.__origin__) else text


def _assembled(values: Mapping[str, object], origins: Mapping[str, str]) -> Settings:
    sections: dict[str, Any] = {name: _section(name, values, origins) for name in SECTIONS}
    return Settings(**sections)


def _section(
    section: str, values: Mapping[str, object], origins: Mapping[str, str]
) -> msgspec.Struct:
    mine = {name: value for name, value in values.items() if name.startswith(f"{section}.")}
    try:
        return SECTIONS[section](**{name.split(".")[1]: value for name, value in mine.items()})
    except ValueError as error:
        raise SettingsError(f"{', '.join(origins[name] for name in mine)}: {error}") from error
