"""`corral serve`, `url` and `logins`: the page on loopback, links that let one browser in, and who is logged in."""

from __future__ import annotations

import argparse
import atexit
import os
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from corral.cli.command import Command, own_command, parse_port
from corral.cli.output import print_json, print_lines, tell
from corral.cli.screen import age, table, terminal_width
from corral.errors import Ambiguous, CorralError, NotFound
from corral.machine import places
from corral.machine.descriptors import with_given_limit
from corral.machine.text import readable
from corral.server.server_files import TOKEN, Running, ServerFiles

if TYPE_CHECKING:
    from corral.server.credentials import Login, Logins

_SERVE = """\
Serve the page and its API on loopback until it is stopped. The port stays the
same over restarts.

examples:
  corral serve               print a link that logs one browser in
  corral serve --open        and open it
  corral serve --port 9000   on this port from now on
  corral serve --reuse       print a link into the one that runs, if one does

Nobody gets in without a link from here or from corral url. Stopping the
server stops no agent: the next start finds their terminals and serves them
again. See docs/server.md.

exit codes: 0 stopped, or there is one to reuse · 1 another server runs, or the
            port is taken · 2 usage, or an address that is refused"""
_URL = """\
Print a link that logs one browser in to the running server, once.

examples:
  corral url          print it
  corral url --json   for programs; with the server's address and pid

Each link works once, within ten minutes.

exit codes: 0 ok · 1 no server runs · 2 usage"""
_LOGINS = """\
List the browsers that are logged in to the page of corral serve, or end some
of these logins.

examples:
  corral logins              which browsers are logged in
  corral logins --end 3f0a   end that login; what it has open is cut off at once
  corral logins --end-all    end all of them

A link from corral url or corral serve makes a login. It ends here, after 90
days without use, or when the server gives up its address (docs/server.md).

exit codes: 0 ok · 1 it could not be ended · 2 usage · 3 several logins begin
            like this · 4 not found"""

OPEN_SECONDS = 60.0
"""How long a link's file stays for a slow browser."""
_PREFIX, _SUFFIX = "corral-login-", ".html"
_STALE_SECONDS = 600.0
_LOOK_SECONDS = 0.25
_ANSWER_SECONDS = 30.0
_LOGIN_LENGTH = 8
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>corral</title></head>
<body><p>To corral …</p></body></html>
"""


# --- corral serve


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=parse_port, metavar="N", help="listen on this port (default: the last one)")
    parser.add_argument("--host", default="127.0.0.1", metavar="H", help="an IP address (default: 127.0.0.1)")
    parser.add_argument("--allow-remote", action="store_true", help="with --host: an address that others can reach")
    parser.add_argument("--reuse", action="store_true", help="if a server runs already, print a link into that one")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")


def serve(args: argparse.Namespace) -> int:
    from corral.server.address import Bind, is_remote
    from corral.server.server_files import bracketed
    from corral.server.serving import AlreadyRunning, run_server

    bind = Bind(port=args.port, host=args.host, allow_remote=args.allow_remote)

    def show(running: Running, code: str) -> None:
        print(running.link(code), flush=True)
        if args.open:
            open_in_browser(running.link(code), places.state_dir())
        if is_remote(bind):
            tunnel = f"ssh -L {running.port}:{bracketed(running.host)}:{running.port}"
            tell(f"a browser on another machine can't log in over plain HTTP: run {tunnel} there, then open the link")
        tell(f"serving; the link works once, `{own_command()} url` prints another. Ctrl-C stops it.")

    try:
        run_server(bind, show)
    except AlreadyRunning as error:
        if not args.reuse or error.running is None:
            raise
        _show_other(error.running, browse=args.open, wanted=args.port)
    else:
        _tell_stopped()
    return 0


def _show_other(running: Running, *, browse: bool, wanted: int | None) -> None:
    link = running.link(ServerFiles(places.state_dir()).make_code(running.name))
    print(link, flush=True)
    tell(f"a server is already running (pid {running.pid}); this link into it works once")
    if wanted and wanted != running.port:
        tell(f"it stays on port {running.port}: to use --port {wanted}, stop it first")
    if browse:
        open_in_browser(link, places.state_dir(), wait=True)


def _tell_stopped() -> None:
    """Say what goes on: stopping the server stops no agent."""
    from corral.model.terminal import Standing
    from corral.terminals import list_terminals, terminals_dir

    left = sum(one.standing is Standing.RUNNING for one in list_terminals(terminals_dir()))
    if not left:
        tell("stopped")
    elif left == 1:
        tell("stopped; 1 terminal goes on without it, and the next start serves it again")
    else:
        tell(f"stopped; {left} terminals go on without it, and the next start serves them again")


# --- a link in the person's browser


def open_in_browser(link: str, state_dir: str, *, wait: bool = False) -> None:
    """Open a file that only the person can read: the code must not be in an argument.

    Returns at once; with `wait`, when the link was used, or after a minute: until then the file is there.
    """
    try:
        path = _write_page(link)
    except OSError as error:
        tell(f"no browser was opened: {error.filename}: {error.strerror}; open the link yourself")
        return
    atexit.register(path.unlink, missing_ok=True)
    # In a process of its own: some browsers block until they end, and Ctrl-C here is not for them. With -I, nothing in
    # the current directory is run.
    process = subprocess.Popen(
        with_given_limit([sys.executable, "-I", "-m", "webbrowser", path.as_uri()]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    threading.Thread(target=process.wait, name="browser", daemon=True).start()
    clearing = threading.Thread(target=_clear_up, args=(path, link, state_dir), name="login-file", daemon=True)
    clearing.start()
    if wait:
        clearing.join()


def _write_page(link: str) -> Path:
    place = _find_place()
    _sweep(place)
    path = place / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(_PAGE.format(link=link))
    return path


def _find_place() -> Path:
    """Confined browsers (snap, flatpak) can't see /tmp or hidden directories; they can see Downloads."""
    home = Path.home()
    for place in (home / "Downloads", home):
        if place.is_dir() and os.access(place, os.W_OK) and place.stat().st_uid == os.getuid():
            return place
    return home


def _clear_up(path: Path, link: str, state_dir: str) -> None:
    files, code = ServerFiles(state_dir), link.partition("#code=")[2]
    until = time.monotonic() + OPEN_SECONDS
    while time.monotonic() < until and files.has_code(code):
        time.sleep(_LOOK_SECONDS)
    path.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """Remove what a killed server left; its code is void by now."""
    for left in place.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            status = left.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _STALE_SECONDS:
                left.unlink()


# --- corral url


def _add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_link(args: argparse.Namespace) -> int:
    files = ServerFiles(places.state_dir())
    running = files.find_running()
    if running is None:
        raise CorralError("no server is running", hint="corral serve starts one")
    link = running.link(files.make_code(running.name))
    if args.json:
        print_json({"schema": 1, "url": link, "origin": running.origin, "address": running.address, "pid": running.pid})
    else:
        print_lines([link])
    return 0


# --- corral logins


def _add_logins(parser: argparse.ArgumentParser) -> None:
    _add_json(parser)
    ending = parser.add_mutually_exclusive_group()
    ending.add_argument("--end", metavar="LOGIN", help="end this login; its first letters are enough")
    ending.add_argument("--end-all", action="store_true", help="end all of them")


def show_logins(args: argparse.Namespace) -> int:
    from corral.server.credentials import read_logins

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
        print_lines(_list_logins(found, time.time()) or ["nobody is logged in: corral url prints a link"])
    return 0


def _describe(login: Login) -> dict[str, object]:
    return {"login": login.login, "label": login.label, "created_at": login.created_at, "used_at": login.used_at}


def _list_logins(found: list[Login], now: float) -> list[str]:
    rows = [
        [
            one.login[:_LOGIN_LENGTH],
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
    """Ask the running server, which cuts off what the login has open; without one, change the file."""
    if files.lock():
        assert kept is not None
        kept.end(login.login)
        return
    running = files.find_running()
    if running is None:
        raise CorralError("a server is just starting", hint="try again")
    _ask_server(running, files, login)


def _ask_server(running: Running, files: ServerFiles, login: Login) -> None:
    import urllib.error
    import urllib.request

    headers = {
        "Authorization": f"Bearer {files.read_secret(TOKEN).decode()}",
        "Content-Type": "application/json",
        "X-Corral": "1",
        "Origin": running.address,
    }
    request = urllib.request.Request(f"{running.address}/api/logins/{login.login}", None, headers, method="DELETE")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        opener.open(request, timeout=_ANSWER_SECONDS).close()
    except urllib.error.HTTPError as error:
        if error.code != 404:  # it had ended already
            raise CorralError(f"the server (pid {running.pid}) did not end it: {error}") from error
    except OSError as error:
        raise CorralError(f"the server (pid {running.pid}) does not answer: {error}") from error


COMMANDS = {
    "serve": Command(_SERVE, _add_serve, serve),
    "url": Command(_URL, _add_json, print_link),
    "logins": Command(_LOGINS, _add_logins, show_logins),
}
