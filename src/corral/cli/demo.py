"""`corral demo`: a home that is prepared and thrown away, and `corral serve` in it."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from types import FrameType
from typing import TYPE_CHECKING

from corral.cli.command import Command, parse_port
from corral.cli.output import tell
from corral.errors import CorralError

if TYPE_CHECKING:
    from corral.demo.place import Place

_HELP = """\
Try everything in a home that is thrown away: sessions in every state, with
tabs, a page, and how to get back in.

examples:
  corral demo                 print a link into a page with invented work
  corral demo --open          and open it
  corral demo --keep          keep the files at the end, to look at them

Its agents are real processes in real terminals, and their model is an echo: no
account, no network, no cost. All of it is in one directory below $TMPDIR.
Ctrl-C ends every process of the demo and deletes the directory; so does killing
the demo in any other way. Your own sessions and settings are neither shown nor
touched. See docs/demo.md.

exit codes: 0 stopped · 1 it could not be set up, its server ended, or something
            could not be removed · 2 usage"""
_TOUR = """
Open the link in a browser; it logs in once. Then try:
  1. "Fix the checkout rounding" waits for you: answer in its tab.
  2. "Migrate to v2" was cut off in a turn, as by a power cut. Open its tab (↻):
     the same conversation comes back.
  3. "Upgrade the linter" was lost long before: see what was left unfinished,
     then resume or dismiss it.
  4. Click an idle session, then close its tab: the agent goes on, and stays in
     the list.
  5. + starts a new session. Type anything; /ask WORDS makes it wait for you,
     /slow WORDS keeps it busy.
  6. "How do you know?" (bottom right) shows the evidence for each sign, "Usage"
     (bottom left) what was spent.
On the command line, in another terminal:
  {corral} ps
  {corral} url     another link
Ctrl-C ends every process of the demo and deletes its files.
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_STOP_SECONDS = 10.0
_MOST_SAID = 2000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=parse_port, metavar="N", help="listen on this port (default: any free one)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument("--keep", action="store_true", help="keep the directory at the end; its processes end anyway")


def run(args: argparse.Namespace) -> int:
    from corral.demo.place import Caretaker, end_place, furnish, make_place, sweep_leftovers

    sweep_leftovers(tell)
    place, caretaker, server = None, None, None
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        tell("setting the scenes, a few seconds …")
        place = make_place()
        caretaker = Caretaker(place, keep=args.keep)  # before there is anything to clean up
        furnish(place)
        server = _start_server(place, args.port)
        _show(server, place, browse=args.open)
        code = server.wait()
        raise CorralError(f"the demo's server ended (exit code {code})", hint=_read_log(place))
    except KeyboardInterrupt:
        pass
    finally:
        _ignore_signals()  # once is enough: the end runs to its end
        if server is not None:
            _stop(server)
        try:
            if place is not None:
                end_place(place, keep=args.keep)
        finally:
            if caretaker is not None:
                caretaker.dismiss()
    kept = place.root if args.keep and place else None
    tell(f"the demo has ended; its files are in {kept}" if kept else "the demo has ended, and nothing is left of it")
    return 0


def _start_server(place: Place, port: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "corral.demo.scenes", str(port or 0)],
        env=place.environment(),
        cwd=place.home,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


def _show(server: subprocess.Popen[bytes], place: Place, *, browse: bool) -> None:
    """Once it serves: its link, and what to try."""
    assert server.stdout is not None
    link = server.stdout.readline().decode(errors="replace").strip()
    if not link.startswith("http://"):
        raise CorralError("the demo could not be set up", hint=_read_log(place))
    print(link, flush=True)
    print(_TOUR.format(corral=place.corral), file=sys.stderr, flush=True)
    if browse:
        from corral.cli.serve import open_in_browser

        open_in_browser(link, place.state)


def _stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()  # our own child, not waited for yet: the PID can't be another's
    try:
        server.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdout is not None:
        server.stdout.close()


def _read_log(place: Place) -> list[str]:
    """What the server said last."""
    try:
        with open(os.path.join(place.root, "server.log"), "rb") as log:
            return log.read()[-_MOST_SAID:].decode(errors="replace").splitlines()
    except OSError:
        return []  # it never started, and has said why


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


COMMANDS = {"demo": Command(_HELP, add_arguments, run)}
