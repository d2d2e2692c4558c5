"""`corral url`: a new link into the running server, good for one browser, once."""

from __future__ import annotations

import argparse

from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.errors import CorralError
from corral.machine import places

_EPILOG = """\
examples:
  corral url          print it
  corral url --json   for programs; with the server's address and pid

Each link logs one browser in and is void after that, or after ten minutes.

exit codes: 0 ok · 1 no server runs · 2 usage
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "url",
        summary="a new link into the running server",
        description="Print a link that logs one browser into the running `corral serve`, once.",
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def run(args: argparse.Namespace) -> int:
    from corral.server.server_files import ServerFiles

    files = ServerFiles(places.state_dir())
    running = files.find_running()
    if running is None:
        raise CorralError("no server runs here", hint="corral serve starts one")
    link = running.link(files.make_code(running.name))
    if args.json:
        print_json({"schema": 1, "url": link, "origin": running.origin, "address": running.address, "pid": running.pid})
    else:
        print_lines([link])
    return 0
