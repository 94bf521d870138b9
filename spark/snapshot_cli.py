"""`ds-spark snapshot`, as it is asked for and as it answers."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from tqdm import tqdm

from spark import rules, session
from spark.deployment import bucket_of
from spark.due import Wanted
from spark.folds import Fold
from spark.rules import Rule
from spark.snapshot import Watch, snapshot
from spark.snapshot_report import report
from spark.snapshot_summary import Progress
from tiering.errors import Invalid, Refused
from tiering.membership import bucket_id

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]

_DEFAULT_PORT = "4437"
_UNAVAILABLE, _UNASKABLE, _BROKEN = 1, 2, 3


def add_to(commands: "Commands") -> None:
    command = commands.add_parser("snapshot", help="fold streams and publish what they come to")
    command.set_defaults(run=_run)
    command.add_argument("--bucket", type=_bucket, help="only streams of this bucket, /ds/BUCKET/")
    command.add_argument("--stream", metavar="GLOB", default="*", help="only those of such a name")
    _add_folds(command)
    command.add_argument("--server", metavar="URL", help="to publish to: http://127.0.0.1:4437")
    command.add_argument("--master", help="of Spark: local[*], spark://host:port, yarn, ...")
    command.add_argument("--dry-run", action="store_true", help="only say what is due")
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument("--objects", metavar="URL", help="or DS_OBJECTS__URL")
    command.add_argument("--endpoint", metavar="URL", help="or DS_OBJECTS__ENDPOINT")
    command.add_argument("--region", help="or DS_OBJECTS__REGION")
    command.add_argument("--data-dir", metavar="DIR", help="of the server: ./data")


def _add_folds(command: argparse.ArgumentParser) -> None:
    which = command.add_mutually_exclusive_group(required=True)
    which.add_argument("--fold", help="state, last-by-key, concat or module:function")
    which.add_argument("--retain", metavar="FILE", type=Path, help="rules, instead of one fold")
    command.add_argument("--key", metavar="POINTER", help="for last-by-key: /id")
    command.add_argument("--tombstone", metavar="POINTER[=JSON]", help="/deleted, /value=null, ...")
    command.add_argument("--content-type", help="of what a function makes")
    command.add_argument("--max-bad", type=_count, help="bad messages that a stream may have: 0")


def _bucket(text: str) -> str:
    try:
        return bucket_id(text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of messages")
    return int(text)


def _run(chosen: argparse.Namespace) -> int:
    try:
        wanted = Wanted(_rules(chosen), chosen.bucket, chosen.stream)
        rules.check(wanted.rules)
    except Refused as error:
        print(f"ds-spark: {error}", file=sys.stderr)
        return _UNASKABLE
    with _watching() as watch:
        summary = snapshot(
            bucket_of(vars(chosen)),
            chosen.server or _server(),
            wanted,
            lambda: session.start(chosen.master, "ds-spark snapshot"),
            is_dry_run=chosen.dry_run,
            watch=watch,
        )
    print(msgspec.json.encode(summary).decode() if chosen.json else report(summary))
    if summary.unavailable is not None:
        print(f"ds-spark: {summary.unavailable}", file=sys.stderr)
        return _UNAVAILABLE
    return _BROKEN if summary.is_broken else 0


def _rules(chosen: argparse.Namespace) -> list[Rule]:
    given = (chosen.key, chosen.tombstone, chosen.content_type)
    if chosen.retain is None:
        fold = Fold.parse(chosen.fold, *given)
        return [Rule("*", "*", fold, chosen.max_bad or 0)]
    if any(one is not None for one in (*given, chosen.max_bad)):
        raise Refused("with --retain the rules say key, tombstone, content_type and max_bad")
    return rules.read(chosen.retain)


def _server() -> str:
    """The one of this machine."""
    return f"http://127.0.0.1:{os.environ.get('DS_SERVER__PORT') or _DEFAULT_PORT}"


@contextmanager
def _watching() -> Iterator[Watch]:
    if not sys.stderr.isatty():
        yield _say
        return
    with tqdm(unit="B", unit_scale=True, leave=False) as bar:

        def show(progress: Progress) -> None:
            bar.set_description_str(progress.doing)
            bar.total = progress.total
            bar.n = progress.done
            bar.refresh()

        yield show


def _say(progress: Progress) -> None:
    """A line for each step, in the log of a cron."""
    if progress.streams and not progress.done:
        size = f"{progress.streams:,} streams, {progress.total:,} bytes"
        print(f"ds-spark: {progress.doing} {size}", file=sys.stderr, flush=True)
