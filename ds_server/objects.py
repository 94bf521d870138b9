"""The object store that the settings name."""

from pathlib import Path

from ds_server.settings import Settings
from tiering.objects.open import open_store
from tiering.objects.store import ObjectStore


def object_store(settings: Settings) -> ObjectStore:
    objects = settings.objects
    url = objects.url or (Path(settings.storage.data_dir).absolute() / "objects").as_uri()
    return open_store(url, endpoint=objects.endpoint, region=objects.region)
