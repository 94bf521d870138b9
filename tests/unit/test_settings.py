"""Every value has one origin, and everything that is not understood stops the start."""

from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest

from ds_server.cpus import usable_cpus
from ds_server.layers import Loaded, SettingsError, load
from ds_server.settings import TYPES, Settings, flat, masked


@pytest.fixture
def config(tmp_path: Path) -> Path:
    directory = tmp_path / "config"
    directory.mkdir()
    return directory


def settings_from(environ: Mapping[str, str]) -> Settings:
    return load(environ=environ, directory=Path("nowhere")).settings


def complaint(environ: Mapping[str, str]) -> str:
    with pytest.raises(SettingsError) as caught:
        settings_from(environ)
    return str(caught.value)


def complaint_about(config: Path, text: str) -> str:
    (config / "local.toml").write_text(text)
    with pytest.raises(SettingsError) as caught:
        load(environ={}, directory=config)
    return str(caught.value)


def port_and_origin(loaded: Loaded) -> tuple[int, str]:
    return loaded.settings.server.port, loaded.origins["server.port"]


def test_without_any_file_or_variable_the_defaults_are_in_force() -> None:
    loaded = load(environ={}, directory=Path("nowhere"))
    assert loaded.settings == Settings()
    assert loaded.settings.server.port == 4437
    assert set(loaded.origins) == set(TYPES)
    assert set(loaded.origins.values()) == {"default"}


def test_each_layer_wins_over_those_before_it(config: Path, tmp_path: Path) -> None:
    def layer(path: Path, port: int) -> str:
        path.write_text(f"[server]\nport = {port}\n")
        return str(path)

    def now(environ: Mapping[str, str]) -> tuple[int, str]:
        return port_and_origin(load("night", tmp_path / "own.toml", environ, config))

    layer(config / "default.toml", 1)
    layer(config / "night.toml", 2)
    local = layer(config / "local.toml", 3)
    own = layer(tmp_path / "own.toml", 4)
    assert now({"DS_SERVER__PORT": "5"}) == (5, "DS_SERVER__PORT")
    assert now({}) == (4, own)
    assert port_and_origin(load("night", None, {}, config)) == (3, local)
    (config / "local.toml").unlink()
    assert port_and_origin(load("night", None, {}, config)) == (2, str(config / "night.toml"))
    assert port_and_origin(load(None, None, {}, config)) == (1, str(config / "default.toml"))


def test_layers_are_mixed_key_by_key(config: Path) -> None:
    (config / "default.toml").write_text('[server]\nhost = "0.0.0.0"\nport = 1\n')
    (config / "local.toml").write_text("[server]\nport = 2\n")
    server = load(environ={}, directory=config).settings.server
    assert (server.host, server.port) == ("0.0.0.0", 2)


def test_files_asked_for_by_name_must_exist(config: Path) -> None:
    with pytest.raises(SettingsError, match=r"night\.toml: No such file"):
        load("night", None, {}, config)
    with pytest.raises(SettingsError, match=r"mine\.toml: No such file"):
        load(None, config / "mine.toml", {}, config)


@pytest.mark.parametrize(
    ("variable", "text", "name", "value"),
    [
        ("DS_SERVER__LONG_POLL_TIMEOUT_SECS", "0.5", "server.long_poll_timeout_secs", 0.5),
        ("DS_SERVER__SSE_RECONNECT_INTERVAL_SECS", "0", "server.sse_reconnect_interval_secs", 0.0),
        ("DS_HTTP__CORS_ORIGINS", "https://a, https://b", "http.cors_origins", ("https://a", "https://b")),
        ("DS_HTTP__CORS_ORIGINS", "", "http.cors_origins", ()),
        ("DS_REDIS__URL", "unix:///run/redis.sock", "redis.url", "unix:///run/redis.sock"),
        ("DS_REDIS__URL", "", "redis.url", None),
        ("DS_LOG__ACCESS", "true", "log.access", True),
        ("DS_TIERING__CHUNK_BYTES", "1024", "tiering.chunk_bytes", 1024),
    ],
)  # fmt: skip
def test_variables_are_read_by_the_type_of_their_setting(
    variable: str, text: str, name: str, value: object
) -> None:
    assert dict(flat(settings_from({variable: text})))[name] == value


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("DS_SERVER__PORT", "65536"),
        ("DS_SERVER__PORT", "4437.5"),
        ("DS_SERVER__PORT", ""),
        ("DS_SERVER__WORKERS", "0"),
        ("DS_SERVER__LONG_POLL_TIMEOUT_SECS", "nan"),
        ("DS_SERVER__LONG_POLL_TIMEOUT_SECS", "inf"),
        ("DS_SERVER__HOST", ""),
        ("DS_REDIS__URL", "http://somewhere"),
        ("DS_LOG__LEVEL", "loud"),
        ("DS_LOG__ACCESS", "perhaps"),
        ("DS_SERVER__PROT", "4437"),
        ("DS_SEVER__PORT", "4437"),
        ("DS_SERVER__PORT__X", "4437"),
        ("DS_TLS__CERT_PATH", "cert.pem"),
    ],
)
def test_a_bad_variable_is_named_in_one_line(variable: str, text: str) -> None:
    line = complaint({variable: text})
    assert line.startswith(f"{variable}: ")
    assert "\n" not in line


@pytest.mark.parametrize(
    "text",
    [
        "[server\n",
        "server = 1\n",
        "[sever]\nport = 1\n",
        "[server]\nprot = 1\n",
        '[server]\nport = "4437"\n',
        "[server]\nport = true\n",
        '[http]\ncors_origins = "*"\n',
        '[tls]\nkey_path = "key.pem"\n',
    ],
)
def test_a_bad_file_is_named_in_one_line(config: Path, text: str) -> None:
    line = complaint_about(config, text)
    assert line.startswith(f"{config / 'local.toml'}: ")
    assert "\n" not in line


def test_a_misspelt_name_is_answered_with_the_right_one(config: Path) -> None:
    assert "did you mean server.port?" in complaint({"DS_SERVER__PROT": "1"})
    assert "did you mean server?" in complaint_about(config, "[sever]\n")


def test_variables_of_others_are_left_alone() -> None:
    others = {"DS_THEME": "dark", "XDS_SERVER__PORT": "1", "PATH": "/bin"}
    assert settings_from(others) == Settings()


def test_settings_travel_to_workers_as_json() -> None:
    settings = settings_from(
        {"DS_HTTP__CORS_ORIGINS": "a,b", "DS_TLS__CERT_PATH": "c", "DS_TLS__KEY_PATH": "k"}
    )
    assert msgspec.json.decode(msgspec.json.encode(settings), type=Settings) == settings


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://localhost:6379/0", "redis://localhost:6379/0"),
        ("rediss://user:secret@host:6379", "rediss://***@host:6379"),
        ("redis://:se@cr/et@host", "redis://***@host"),
        ("unix:///run/redis.sock?db=1&password=secret", "unix:///run/redis.sock?db=1&password=***"),
    ],
)
def test_credentials_are_masked(url: str, shown: str) -> None:
    assert masked(url) == shown


def test_a_bad_redis_url_does_not_show_its_credentials() -> None:
    assert "secret" not in complaint({"DS_REDIS__URL": "http://user:secret@host"})


def test_workers_follow_the_quota_of_a_container(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    quota.write_text("50000 100000\n")
    assert usable_cpus(quota) == 1
    quota.write_text("max 100000\n")
    assert usable_cpus(quota) == usable_cpus(tmp_path / "missing")
