"""The command line: `ds-server`, which is `ds-server serve`, and what else it can do."""

import argparse
import asyncio
import sys
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path

from ds_server import logs
from ds_server.layers import Loaded, SettingsError, load
from ds_server.listing import listing
from ds_server.supervisor import serve
from tiering.errors import Refused, StreamError

SETTINGS_EXIT_CODE = 2

Command = Callable[[Loaded, argparse.Namespace], int | None]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(_with_command(sys.argv[1:] if arguments is None else arguments))
    run: Command = options.run
    try:
        return run(load(options.profile, options.config), options) or 0
    except SettingsError as error:
        return _fail(error, SETTINGS_EXIT_CODE)
    except (OSError, Refused, StreamError) as error:
        return _fail(error, 1)


def _with_command(arguments: Sequence[str]) -> list[str]:
    """`ds-server` alone serves, also when options follow."""
    asks_about_us = {"-h", "--help", "--version"}
    names_command = arguments and not arguments[0].startswith("-")
    if names_command or asks_about_us.intersection(arguments[:1]):
        return list(arguments)
    return ["serve", *arguments]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ds-server", description="A Durable Streams server.")
    parser.add_argument("--version", action="version", version=version("ds-server"))
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    _add(commands, "serve", "serve streams until stopped (the default)", _serve)
    _add(commands, "config", "print the settings in force and where each came from", _config)
    stats = _add(commands, "stats", "tell how much of which stream is where", _stats)
    stats.add_argument("--json", action="store_true", help="for machines")
    seal = _add(commands, "seal", "move what is in Redis to object storage now", _seal)
    seal.add_argument("--all", action="store_true", required=True, help="every stream")
    recover = _add(commands, "recover", "rebuild an empty Redis from object storage", _recover)
    recover.add_argument("--json", action="store_true", help="for machines")
    fsck = _add(commands, "fsck", "prove that what is stored is what was written", _fsck)
    fsck.add_argument("--stream", metavar="NAME", help="only this one")
    fsck.add_argument("--json", action="store_true", help="for machines")
    _add(
        commands, "sweep", "remove what has expired, and what its time of grace is over for", _sweep
    )
    return parser


def _add(
    commands: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    purpose: str,
    run: Command,
) -> argparse.ArgumentParser:
    command = commands.add_parser(name, help=purpose, description=purpose.capitalize() + ".")
    command.add_argument("--profile", metavar="NAME", help="also read config/NAME.toml")
    command.add_argument("--config", metavar="PATH", type=Path, help="also read this TOML file")
    command.set_defaults(run=run)
    return command


def _serve(loaded: Loaded, options: argparse.Namespace) -> None:
    logs.configure(loaded.settings.log)
    asyncio.run(serve(loaded.settings))


def _config(loaded: Loaded, options: argparse.Namespace) -> None:
    print(listing(loaded))


def _stats(loaded: Loaded, options: argparse.Namespace) -> None:
    from ds_server.upkeep import print_stats

    asyncio.run(print_stats(loaded.settings, options.json))


def _seal(loaded: Loaded, options: argparse.Namespace) -> None:
    from ds_server.upkeep import seal_everything

    asyncio.run(seal_everything(loaded.settings))


def _recover(loaded: Loaded, options: argparse.Namespace) -> int:
    from ds_server.repair import recover

    return asyncio.run(recover(loaded.settings, options.json))


def _fsck(loaded: Loaded, options: argparse.Namespace) -> int:
    from ds_server.repair import fsck

    return asyncio.run(fsck(loaded.settings, options.stream, options.json))


def _sweep(loaded: Loaded, options: argparse.Namespace) -> None:
    from ds_server.upkeep import sweep

    asyncio.run(sweep(loaded.settings))


def _fail(error: Exception, code: int) -> int:
    print(f"ds-server: {error}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
