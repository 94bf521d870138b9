"""What is known of a published snapshot beside its bytes."""

import msgspec


class Snapshot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Stands for everything before `position`. Its object may be another stream's: a fork has its
    source's snapshot until it gets one of its own."""

    position: int
    key: str
    content_type: str
    size: int
    digest: str

    def encode(self) -> bytes:
        return msgspec.json.encode(self)


def decode(text: bytes | str) -> Snapshot | None:
    """None where there is none."""
    return msgspec.json.decode(text, type=Snapshot) if text else None
