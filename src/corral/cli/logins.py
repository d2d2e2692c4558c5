"""`corral logins`: the browsers that are logged in to the page, and the end of one of them."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from corral.cli.asking import tell
from corral.cli.output import print_json, print_lines
from corral.cli.parsers import Commands, add_command
from corral.cli.screen import age, table, terminal_width
from corral.errors import Ambiguous, CorralError, NotFound
from corral.machine import places
from corral.machine.text import readable

if TYPE_CHECKING:
    from corral.server.logins import Login, Logins
    from corral.server.server_files import Running, ServerFiles

_SECONDS = 30.0
_SHOWN = 8
_EPILOG = """\
examples:
  corral logins              which browsers are logged in
  corral logins --end 3f0a   end that one; what it has open is cut off at once
  corral logins --end-all    all of them

A login is made by a link from `corral url` or `corral serve`. It ends here, after 90 days without use, or when the
address of the page was let go of (docs/server.md).

exit codes: 0 ok · 1 it could not be ended · 2 usage · 3 several begin so · 4 not found
"""


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "logins",
        summary="the browsers that are logged in to the page",
        description="List the browsers that are logged in to the page of `corral serve`, or end some of them.",
        epilog=_EPILOG,
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--end", metavar="LOGIN", help="end this one; its first letters are enough")
    ending.add_argument("--end-all", action="store_true", help="end all of them")
    return parser


def run(args: argparse.Namespace) -> int:
    from corral.server.logins import read_logins
    from corral.server.server_files import ServerFiles

    files = ServerFiles(places.state_dir())
    kept = read_logins(files)
    found = kept.list() if kept is not None else []
    wanted = found if args.end_all else [_find(found, args.end)] if args.end is not None else None
    if wanted is not None:
        for one in wanted:
            _end(files, kept, one)
        tell(f"{len(wanted)} ended" if wanted else "nobody is logged in")
        return 0
    if args.json:
        print_json({"schema": 1, "logins": [_describe(one) for one in found]})
    else:
        print_lines(_render(found, time.time()) or ["nobody is logged in: corral url prints a link"])
    return 0


def _describe(login: Login) -> dict[str, object]:
    return {"login": login.login, "label": login.label, "created_at": login.created_at, "used_at": login.used_at}


def _render(found: list[Login], now: float) -> list[str]:
    rows = [
        [
            one.login[:_SHOWN],
            readable(one.label),
            f"since {age(now - one.created_at)}",
            f"used {age(now - one.used_at)} ago",
        ]
        for one in found
    ]
    return table(rows, (1,), terminal_width())


def _find(found: list[Login], begin: str) -> Login:
    those = [one for one in found if one.login.startswith(begin)] if begin else []
    if not those:
        raise NotFound(f"there is no login {begin!r}", hint="corral logins lists them")
    if len(those) > 1:
        raise Ambiguous(f"{len(those)} logins begin with {begin!r}", hint="corral logins --json shows them in full")
    return those[0]


def _end(files: ServerFiles, kept: Logins | None, login: Login) -> None:
    """By the server that runs, which cuts off what it has open; by the file when none does."""
    if files.lock():
        assert kept is not None
        kept.end(login.login)
        return
    running = files.find_running()
    if running is None:
        raise CorralError("a server starts right now", hint="try again")
    _ask_server(running, files, login)


def _ask_server(running: Running, files: ServerFiles, login: Login) -> None:
    import urllib.error
    import urllib.request

    from corral.server.server_files import TOKEN

    headers = {
        "Authorization": f"Bearer {files.read_secret(TOKEN).decode()}",
        "Content-Type": "application/json",
        "X-Corral": "1",
        "Origin": running.address,
    }
    request = urllib.request.Request(f"{running.address}/api/logins/{login.login}", None, headers, method="DELETE")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=_SECONDS).close()
    except urllib.error.HTTPError as error:
        if error.code != 404:  # else it has ended meanwhile
            raise CorralError(f"the server (pid {running.pid}) did not end it: {error}") from error
    except OSError as error:
        raise CorralError(f"the server (pid {running.pid}) does not answer: {error}") from error
