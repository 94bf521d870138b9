"""The object store that the settings name."""

from pathlib import Path

from ds_server.settings import Settings
from tiering.data_directory import objects_in
from tiering.errors import Refused
from tiering.objects.open import open_store
from tiering.objects.store import ObjectStore


def object_store(settings: Settings) -> ObjectStore:
    objects = settings.objects
    url = objects.url or _in_the_data_directory(settings)
    return open_store(url, endpoint=objects.endpoint, region=objects.region)


def _in_the_data_directory(settings: Settings) -> str:
    """Ours to make; a directory that the settings name for objects must be there."""
    data = Path(settings.storage.data_dir).absolute()
    try:
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise Refused(f"data directory {data}: {error.strerror}") from error
    return objects_in(data).as_uri()
