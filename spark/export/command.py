"""The arguments of `ds-spark export`, and what it says."""

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from tqdm import tqdm

from spark import session
from spark.deployment import bucket_of
from spark.export.directory import Busy, Directory
from spark.export.job import Progress, Watch, Wish, export, imagine
from spark.export.summary import Summary, report
from spark.export.workforce import Executors
from tiering.errors import Invalid
from tiering.membership import BUCKETED, bucket_id

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

DAMAGED_EXIT_CODE = 3
BUSY_EXIT_CODE = 4
INTERRUPTED_EXIT_CODE = 130


def add_to(commands: "Commands") -> None:
    command = commands.add_parser("export", help="write what is new as Parquet files")
    command.set_defaults(run=run)
    command.add_argument("--to", metavar="DIR", type=Path, required=True, help="of the files")
    command.add_argument(
        "--schema", metavar="DDL", help="fields of JSON messages that become columns of their own"
    )
    command.add_argument("--bucket", type=_bucket, help="only streams of this bucket, /ds/BUCKET/")
    command.add_argument("--stream", metavar="GLOB", default="*", help="only those of such a name")
    command.add_argument("--master", help="of Spark: local[*], spark://host:port, yarn, ...")
    command.add_argument("--dry-run", action="store_true", help="only say what would be done")
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument("--objects", metavar="URL", help="or DS_OBJECTS__URL")
    command.add_argument("--endpoint", metavar="URL", help="or DS_OBJECTS__ENDPOINT")
    command.add_argument("--region", help="or DS_OBJECTS__REGION")
    command.add_argument(
        "--data-dir", metavar="DIR", help="of the server, where the objects are: ./data"
    )


def run(chosen: argparse.Namespace) -> int:
    """4 when another run is at work on the same directory."""
    try:
        summary = _summary(chosen)
    except Busy as error:
        print(f"ds-spark: {error}", file=sys.stderr)
        return BUSY_EXIT_CODE
    except KeyboardInterrupt:
        print("ds-spark: interrupted: the next run goes on from here", file=sys.stderr)
        return INTERRUPTED_EXIT_CODE
    print(msgspec.json.encode(summary).decode() if chosen.json else report(summary))
    return DAMAGED_EXIT_CODE if summary.damaged else 0


def _summary(chosen: argparse.Namespace) -> Summary:
    prefix = f"{BUCKETED}/{chosen.bucket}/" if chosen.bucket else ""
    wish = Wish(
        bucket_of(vars(chosen)),
        Directory(chosen.to.absolute()),
        f"{prefix}{chosen.stream}",
        chosen.schema,
    )
    if chosen.dry_run:
        return imagine(wish)
    with _watching() as watch:
        return export(
            wish, lambda: Executors(session.start(chosen.master, "ds-spark export")), watch
        )


def _bucket(text: str) -> str:
    try:
        return bucket_id(text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(str(error)) from None


@contextmanager
def _watching() -> Iterator[Watch]:
    """A bar for people, a line for each batch in the log of a cron."""
    if not sys.stderr.isatty():
        yield _line
        return
    with tqdm(desc="exporting", unit="B", unit_scale=True, leave=False) as bar:

        def show(progress: Progress) -> None:
            bar.total = progress.total
            bar.set_postfix_str(f"batch {progress.batch} of {progress.batches}")
            bar.update(progress.done - bar.n)

        yield show


def _line(progress: Progress) -> None:
    if progress.done < progress.total:
        place = f"batch {progress.batch} of {progress.batches}"
        left = f"{progress.total - progress.done:,} bytes left"
        print(f"ds-spark: {place}: {left}", file=sys.stderr, flush=True)
