"""How much of which stream is where."""

from dataclasses import dataclass

from tiering.hot.sealing import SealingDesk, Survey


@dataclass(frozen=True, slots=True)
class StreamStats:
    stream: str
    hot_bytes: int
    sealed_bytes: int
    chunks: int
    parts: int
    oldest_unsealed_secs: float | None


async def collect(desk: SealingDesk) -> list[StreamStats]:
    found = {name: await desk.survey(name) async for name in desk.names()}
    return [
        await _stats(desk, name, survey)
        for name, survey in sorted(found.items())
        if survey is not None
    ]


async def _stats(desk: SealingDesk, name: str, survey: Survey) -> StreamStats:
    chunks, parts = await desk.counts(name)
    age_ms = None if survey.oldest_ms is None else max(0, survey.now_ms - survey.oldest_ms)
    return StreamStats(
        stream=name,
        hot_bytes=survey.tail - survey.sealed,
        sealed_bytes=survey.sealed - survey.manifest.border,
        chunks=chunks,
        parts=parts,
        oldest_unsealed_secs=None if age_ms is None else age_ms / 1000,
    )


def total(stats: list[StreamStats]) -> StreamStats:
    ages = [s.oldest_unsealed_secs for s in stats if s.oldest_unsealed_secs is not None]
    return StreamStats(
        stream="total",
        hot_bytes=sum(s.hot_bytes for s in stats),
        sealed_bytes=sum(s.sealed_bytes for s in stats),
        chunks=sum(s.chunks for s in stats),
        parts=sum(s.parts for s in stats),
        oldest_unsealed_secs=max(ages, default=None),
    )
