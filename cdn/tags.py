"""Cache tags: what a purge of a stream calls its answers."""

from tiering.cold.keys import segment


def tag(name: str) -> str:
    """Readable, and without the characters that separate tags: letters, digits and `_.-~%`."""
    return f"stream-{segment(name)}"


def tags(name: str) -> dict[str, str]:
    """In the words of all who know tags: Cloudflare and Akamai, then Fastly."""
    return {"Cache-Tag": tag(name), "Surrogate-Key": tag(name)}
