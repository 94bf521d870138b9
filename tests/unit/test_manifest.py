import pytest

from tiering.cold.manifest import VERSION, Manifest, decode, tombstone
from tiering.errors import Corrupt

MANIFEST = Manifest(
    version=VERSION,
    name="a/b",
    log=7,
    content_type="text/plain",
    grid=1024,
    created_ms=1,
    tail=10,
    sealed=5,
    ttl_secs=60,
    closed=True,
    closed_by="0:1:p",
)


@pytest.mark.parametrize("manifest", [MANIFEST, tombstone(MANIFEST)])
def test_a_manifest_survives_its_bytes(manifest: Manifest) -> None:
    assert decode(manifest.encode(), "k") == manifest


def test_an_unknown_version_is_refused_and_named() -> None:
    changed = MANIFEST.encode().replace(b'"version": 1', b'"version": 9')
    with pytest.raises(Corrupt, match="manifest/k has format version 9"):
        decode(changed, "manifest/k")


@pytest.mark.parametrize("damage", [b"", b"{", b"{}", b'{"version": 1}'])
def test_damage_is_said_with_the_key(damage: bytes) -> None:
    with pytest.raises(Corrupt, match="manifest/k"):
        decode(damage, "manifest/k")
