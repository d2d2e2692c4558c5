"""`corral config`: where corral's own settings lie and what is in force."""

from __future__ import annotations

import argparse

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import tilde
from corral.errors import CorralError
from corral.system import places
from corral.system.config import Config, read_config

_EPILOG = """\
The file is optional TOML:
  [homes]                              # data roots beside the default ones
  kimi-cli = ["/mnt/data/.kimi"]
  [programs]                           # where PATH would not find the right program
  kimi-code = "/opt/kimi/bin/kimi"
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "config",
        summary="corral's own configuration",
        description="Show the configuration in force, or print the path of its file.",
        epilog=_EPILOG,
    )
    parser.add_argument("what", nargs="?", choices=("show", "path"), default="show")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    config = read_config()
    if args.what == "path":
        print_lines([config.path])
        return 0
    if config.problem:
        raise CorralError(f"{config.path}: {config.problem}", hint="the defaults are in force until it is mended")
    if args.json:
        print_json(config)
        return 0
    print_lines(render(config))
    return 0


def render(config: Config) -> list[str]:
    lines = [f"config   {tilde(config.path)}" + ("" if config.exists else "  (does not exist: defaults)")]
    lines += [
        f"state    {tilde(places.state_dir())}",
        f"data     {tilde(places.data_dir())}",
        f"cache    {tilde(places.cache_dir())}",
    ]
    lines += [f"home     {name}: {tilde(path)}" for name, paths in config.homes.items() for path in paths]
    lines += [f"program  {name}: {tilde(path)}" for name, path in config.programs.items()]
    return lines
