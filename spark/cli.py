"""`ds-spark`: what a bucket holds, as Spark will see it, and the jobs that tend it."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence

import msgspec

from spark import session, snapshot_cli
from spark.compact import compact
from spark.deployment import Deployment
from spark.export import command as export
from spark.options import Options
from spark.planning import Planned, Planner
from spark.report import report
from spark.watching import watching
from tiering.errors import Invalid, Refused, StreamError
from tiering.membership import BUCKETED, bucket_id

DAMAGED_EXIT_CODE = 3

_HEADINGS = ("stream", "content type", "from", "sealed up to", "bytes", "chunks", "parts")


class Line(msgspec.Struct, frozen=True):
    """A stream as far as it is in the bucket."""

    stream: str
    content_type: str
    start: str
    end: str
    bytes: int
    chunks: int
    parts: int


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when all went well, 1 when Redis or the bucket cannot be used or read, 2 for what cannot
    be asked, 3 when something could not be compacted because it is damaged."""
    chosen = _parser().parse_args(arguments)
    command: Callable[[argparse.Namespace], int] = chosen.run
    try:
        return command(chosen)
    except (Refused, StreamError) as error:
        print(f"ds-spark: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ds-spark", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_streams(commands.add_parser("streams", help="list the streams and their objects"))
    _add_compact(commands.add_parser("compact", help="put fewer, larger objects in their place"))
    export.add_to(commands)
    snapshot_cli.add_to(commands)
    return parser


def _add_streams(streams: argparse.ArgumentParser) -> None:
    streams.set_defaults(run=_run_streams)
    streams.add_argument("url", help="s3://bucket/prefix, or the directory of the objects")
    streams.add_argument("--stream", metavar="GLOB", help="only those of such a name")
    streams.add_argument("--endpoint", help="of an S3 server that is not Amazon's")
    streams.add_argument("--region")
    streams.add_argument("--json", action="store_true", help="for programs")


def _add_compact(command: argparse.ArgumentParser) -> None:
    command.set_defaults(run=_run_compact)
    command.add_argument("--bucket", type=_bucket, help="only streams of this bucket, /ds/BUCKET/")
    command.add_argument("--stream", metavar="GLOB", default="*", help="only those of such a name")
    command.add_argument("--master", help="of Spark: local[*], spark://host:port, yarn, ...")
    command.add_argument("--dry-run", action="store_true", help="only say what would be done")
    command.add_argument("--json", action="store_true", help="for programs")
    command.add_argument("--redis", metavar="URL", help="or DS_REDIS__URL")
    command.add_argument("--objects", metavar="URL", help="or DS_OBJECTS__URL")
    command.add_argument("--endpoint", metavar="URL", help="or DS_OBJECTS__ENDPOINT")
    command.add_argument("--region", help="or DS_OBJECTS__REGION")
    command.add_argument(
        "--data-dir", metavar="DIR", help="of the server, where both are by default: ./data"
    )


def _bucket(text: str) -> str:
    try:
        return bucket_id(text)
    except Invalid as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _run_streams(chosen: argparse.Namespace) -> int:
    names = ("url", "stream", "endpoint", "region")
    given = {name: value for name in names if (value := getattr(chosen, name))}
    lines = asyncio.run(_streams(Options.parse(given)))
    print(msgspec.json.encode(lines).decode() if chosen.json else _table(lines))
    return 0


def _run_compact(chosen: argparse.Namespace) -> int:
    prefix = f"{BUCKETED}/{chosen.bucket}/" if chosen.bucket else ""
    with watching() as watch:
        summary = asyncio.run(
            compact(
                Deployment.parse(vars(chosen)),
                lambda: session.start(chosen.master, "ds-spark compact"),
                f"{prefix}{chosen.stream}",
                is_dry_run=chosen.dry_run,
                watch=watch,
            )
        )
    print(msgspec.json.encode(summary).decode() if chosen.json else report(summary))
    return DAMAGED_EXIT_CODE if summary.damaged else 0


async def _streams(options: Options) -> list[Line]:
    async with options.bucket.open() as store:
        return [_line(one) for one in await Planner(options, store).streams()]


def _line(one: Planned) -> Line:
    stream = one.stream
    kinds = [wanted.piece.kind for wanted in stream.slices]
    return Line(
        stream=stream.name,
        content_type=stream.manifest.content_type,
        start=str(stream.at(stream.start)),
        end=str(stream.at(stream.end)),
        bytes=stream.end - stream.start,
        chunks=kinds.count("chunk"),
        parts=kinds.count("part"),
    )


def _table(lines: list[Line]) -> str:
    rows = [_HEADINGS, *(tuple(map(str, msgspec.structs.astuple(line))) for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADINGS))]
    return "\n".join("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
