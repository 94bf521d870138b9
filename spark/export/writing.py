"""What executors do for an export. They need the bucket and the directory."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pyspark.sql.types import StructType

from spark.batches import Batches
from spark.export.files import File, Files
from spark.export.planning import Segment
from spark.fetching import Fetcher, Removed
from spark.messages import Messages
from spark.options import Bucket
from tiering.errors import Corrupt, Invalid, Refused, StreamError

Numbered = tuple[int, Segment]
Outcome = Literal["done", "damaged", "removed", "unavailable"]


@dataclass(frozen=True, slots=True)
class Setting:
    """What all tasks of a run have in common."""

    bucket: Bucket
    drafts: Path
    schema: StructType


@dataclass(frozen=True, slots=True)
class Result:
    """`number` tells which segment it was. Its files lead up to `end`; if that is not its own end,
    `reason` says why."""

    number: int
    end: int
    files: tuple[File, ...]
    outcome: Outcome
    reason: str = ""


def write_all(setting: Setting, segments: Sequence[Numbered]) -> list[Result]:
    """What is damaged in one stream does not concern the next one; a bucket or a directory that
    cannot be used concerns all."""
    results: list[Result] = []
    try:
        with Fetcher(setting.bucket) as fetcher:
            for result in _results(setting, fetcher, segments):
                results.append(result)
    except (Refused, StreamError, OSError) as error:
        for number, segment in segments[len(results) :]:
            results.append(Result(number, segment.start, (), "unavailable", str(error)))
    return results


def _results(setting: Setting, fetcher: Fetcher, segments: Sequence[Numbered]) -> Iterator[Result]:
    """Objects are fetched ahead across segments; behind one that breaks off that begins anew."""
    batches, left = Batches(setting.schema), deque(segments)
    while left:
        messages = fetcher.messages([one for _, segment in left for one in segment.work])
        is_unbroken = True
        while left and is_unbroken:
            number, segment = left.popleft()
            with Files(setting.drafts, segment.source.name) as files:
                result = _result(number, segment, messages, batches, files)
            is_unbroken = result.outcome == "done"
            yield result


def _result(
    number: int, segment: Segment, found: Iterator[Messages], batches: Batches, files: Files
) -> Result:
    end = segment.start
    for one in segment.slices:
        try:
            messages = next(found)
        except Removed as error:
            return Result(number, end, files.finished(), "removed", str(error))
        except (Corrupt, Invalid) as error:
            return Result(number, end, files.finished(), "damaged", str(error))
        for batch in batches.batches([(segment.source, messages)]):
            files.write(batch)
        end = one.end
    return Result(number, end, files.finished(), "done")
