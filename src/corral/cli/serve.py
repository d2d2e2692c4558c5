"""`corral serve`: the page, the API and the events, on loopback, until it is stopped; terminals live on without it."""

from __future__ import annotations

import argparse
import sys

from corral.cli.parsers import Commands, add_command

_EPILOG = """\
examples:
  corral serve               prints a link that logs one browser in
  corral serve --open        and opens it
  corral serve --port 9000   on this port from now on

It listens on loopback only, and lets nobody in without a link from here or from `corral url`. Stopping it stops no
agent: their terminals are found and served again by the next one. See docs/server.md.

exit codes: 0 stopped · 1 another server runs, or the port is taken · 2 usage, or an address that is refused
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "serve",
        summary="the page: sessions, tabs and what happens, in a browser",
        description="Serve the page and its API on loopback. The port is kept over restarts.",
        epilog=_EPILOG,
    )
    parser.add_argument("--port", type=int, metavar="N", help="listen on this port (default: as the last time)")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="an IP address (default: 127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="with --host: an address that others can reach")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    return parser


def run(args: argparse.Namespace) -> int:
    from corral.server.server_files import Running
    from corral.server.serving import Bind, serve

    def tell(running: Running, code: str) -> None:
        link = f"{running.origin}/#code={code}"
        print(link, flush=True)
        print("corral: serving; the link works once, `corral url` prints another. Ctrl-C stops it.", file=sys.stderr)
        if args.open:
            import webbrowser

            webbrowser.open(link)

    serve(Bind(port=args.port, host=args.host, allow_remote=args.allow_remote), tell)
    return 0
