"""`corral serve`: the page, the API and the events, on loopback, until it is stopped; terminals live on without it."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from corral.cli.asking import tell
from corral.cli.own_command import own_command
from corral.cli.parsers import Commands, add_command, parse_port
from corral.machine import places

if TYPE_CHECKING:
    from corral.server.server_files import Running

_EPILOG = """\
examples:
  corral serve               prints a link that logs one browser in
  corral serve --open        and opens it
  corral serve --port 9000   on this port from now on
  corral serve --reuse       a link into the one that runs, if one does

It listens on loopback only, and lets nobody in without a link from here or from `corral url`. Stopping it stops no
agent: their terminals are found and served again by the next one. See docs/server.md.

exit codes: 0 stopped, or there is one to reuse · 1 another server runs, or the port is taken · 2 usage, or an address
that is refused
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "serve",
        summary="the page: sessions, tabs and what happens, in a browser",
        description="Serve the page and its API on loopback. The port is kept over restarts.",
        epilog=_EPILOG,
    )
    parser.add_argument("--port", type=parse_port, metavar="N", help="listen on this port (default: as the last time)")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="an IP address (default: 127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="with --host: an address that others can reach")
    parser.add_argument("--reuse", action="store_true", help="if a server runs already, print a link into that one")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    return parser


def run(args: argparse.Namespace) -> int:
    from corral.server.address import Bind, is_remote
    from corral.server.server_files import bracketed
    from corral.server.serving import AlreadyRunning, serve

    bind = Bind(port=args.port, host=args.host, allow_remote=args.allow_remote)

    def show(running: Running, code: str) -> None:
        print(running.link(code), flush=True)
        if args.open:
            from corral.cli.browsing import open_in_browser

            open_in_browser(running.link(code), places.state_dir())
        if is_remote(bind):
            tunnel = f"ssh -L {running.port}:{bracketed(running.host)}:{running.port}"
            tell(f"no browser can log in over plain HTTP from elsewhere: open the link at the near end of {tunnel}")
        tell(f"serving; the link works once, `{own_command()} url` prints another. Ctrl-C stops it.")

    try:
        serve(bind, show)
    except AlreadyRunning as error:
        if not args.reuse or error.running is None:
            raise
        _show_other(error.running, browse=args.open, wanted=args.port)
    else:
        _tell_stopped()
    return 0


def _show_other(running: Running, *, browse: bool, wanted: int | None) -> None:
    from corral.server.server_files import ServerFiles

    link = running.link(ServerFiles(places.state_dir()).make_code(running.name))
    print(link, flush=True)
    tell(f"a server runs already (pid {running.pid}), and goes on; this link works once")
    if wanted and wanted != running.port:
        tell(f"it stays where it is: stop it first, then --port {wanted} moves it")
    if browse:
        from corral.cli.browsing import open_in_browser

        open_in_browser(link, places.state_dir(), wait=True)


def _tell_stopped() -> None:
    """What lives on is said: stopping the server stops no agent."""
    from corral.model.terminal import Standing
    from corral.terminals import list_terminals, terminals_dir

    left = sum(one.standing is Standing.RUNNING for one in list_terminals(terminals_dir()))
    match left:
        case 0:
            tell("stopped")
        case 1:
            tell("stopped; 1 terminal goes on without it, and is served again by the next start")
        case _:
            tell(f"stopped; {left} terminals go on without it, and are served again by the next start")
