"""infra/compose.yaml, as far as it can be checked without a Docker engine."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.edge import EDGE

from ds_server.layers import load

INFRA = EDGE.parent
STACK: dict[str, Any] = yaml.safe_load((INFRA / "compose.yaml").read_text())
SERVICES: dict[str, dict[str, Any]] = STACK["services"]
SERVERS = ["server-1", "server-2"]
KNOWN = {
    "build",
    "command",
    "depends_on",
    "entrypoint",
    "environment",
    "healthcheck",
    "image",
    "ports",
    "restart",
    "volumes",
}
SCRIPT_VARIABLES = re.compile(r"^#   (EDGE_\w+)", re.MULTILINE)


def test_the_stack_is_what_the_page_says() -> None:
    assert set(SERVICES) == {"redis", "minio", "bucket", *SERVERS, "varnish"}
    assert set(STACK) == {"name", "services", "volumes", "x-server"}


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_made_of_what_compose_knows(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= KNOWN
    assert all(isinstance(value, str) for value in service.get("environment", {}).values())
    assert set(service.get("depends_on", ())) <= set(SERVICES)
    for key in ("command", "entrypoint"):
        assert all(isinstance(word, str) for word in service.get(key, []))


@pytest.mark.parametrize("name", SERVICES)
def test_images_are_pinned_or_built_here(name: str) -> None:
    service = SERVICES[name]
    image, _, tag = service["image"].rpartition(":")
    assert image
    if "build" in service:
        assert (INFRA / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    else:
        assert re.search(r"[0-9]+\.[0-9]+\.[0-9]+|RELEASE\.[0-9]{4}-", tag), "a tag that moves"


def test_the_image_is_made_of_what_is_here() -> None:
    text = (INFRA / "Dockerfile").read_text()
    copied = [word for line in re.findall(r"^COPY (.+) \S+$", text, re.M) for word in line.split()]
    assert all((INFRA.parent / name).exists() for name in copied)
    assert re.search(r"^FROM \S+:[0-9]+\.[0-9]+\.[0-9]+", text, re.M)


def test_volumes_are_declared_or_are_folders_of_ours() -> None:
    for service in SERVICES.values():
        for volume in service.get("volumes", []):
            source = volume.partition(":")[0]
            assert source in STACK["volumes"] or (INFRA / source).is_dir(), volume


def test_the_edge_runs_the_files_that_are_tested() -> None:
    varnish = SERVICES["varnish"]
    [mount] = varnish["volumes"]
    source, target, mode = mount.split(":")
    assert (INFRA / source).resolve() == EDGE
    assert mode == "ro"
    assert varnish["entrypoint"] == ["sh", f"{target}/varnish.sh"]
    known = set(SCRIPT_VARIABLES.findall((EDGE / "varnish.sh").read_text()))
    assert set(varnish["environment"]) <= known


@pytest.mark.parametrize("name", SERVERS)
def test_the_settings_of_the_servers_are_settings(name: str, tmp_path: Path) -> None:
    environment = SERVICES[name]["environment"] | {"DS_EDGE__SECRET": "for-this-machine-alone"}
    settings = load(environ=environment, directory=tmp_path).settings
    assert settings.edge.varnish == ("http://varnish:8080",)
    assert str(settings.server.port) in SERVICES["varnish"]["environment"]["EDGE_ORIGINS"]
    assert settings.redis.url == "redis://redis:6379/0"


def test_servers_and_edge_share_their_secret_and_their_bucket() -> None:
    edge = SERVICES["varnish"]["environment"]
    for name in SERVERS:
        server = SERVICES[name]["environment"]
        assert server["DS_EDGE__SECRET"] == edge["EDGE_SECRET"]
        assert server["DS_OBJECTS__ENDPOINT"] == f"http://{edge['EDGE_BUCKET']}"
        assert f"{name}:4437" in edge["EDGE_ORIGINS"]


def test_redis_keeps_what_it_acknowledges() -> None:
    command = " ".join(SERVICES["redis"]["command"])
    assert "--appendonly yes" in command
    assert "--appendfsync always" in command
    assert "--maxmemory-policy noeviction" in command
