"""`corral demo`: everything, with a small agent of corral's own, in a home that is thrown away."""

from __future__ import annotations

import argparse
import signal
import sys
from types import FrameType

from corral.cli.asking import tell
from corral.cli.parsers import Commands, add_command, parse_port

_EPILOG = """\
examples:
  corral demo                 prints a link into a page with sessions of invented work
  corral demo --open          and opens it
  corral demo --keep          leave the files behind, to look at them

The agents in it are real processes in real terminals, and their model is an echo: no account, no network, no cost.
All of it lives in one directory below $TMPDIR. Ctrl-C ends every process of it and deletes it, and so does killing
the demo in any other way. Your own sessions and settings are neither shown nor touched. See docs/demo.md.

exit codes: 0 stopped · 1 it could not be set up, its server ended, or something of it could not be removed · 2 usage
"""
_TOUR = """
Open the link in a browser; it logs in once. Then try:
  1. "Fix the checkout rounding" waits for you: answer in its tab.
  2. "Migrate to v2" was cut off in a turn, as by a power cut. Open its tab (↻): the same conversation comes back.
  3. "Upgrade the linter" was lost long before: see what was left unfinished, then resume or dismiss it.
  4. Click an idle session, then close its tab: the agent goes on, and is in the list.
  5. + starts a new session. Type anything; /ask WORDS makes it wait for you, /slow WORDS keeps it busy.
  6. "How do you know?" (below, right) shows the evidence for each sign, "Usage" (below, left) what was spent.
On the command line, in another terminal:
  {corral} ps
  {corral} url     another link
Ctrl-C ends every process of the demo and deletes its files.
"""
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_parser(commands: Commands) -> argparse.ArgumentParser:
    parser = add_command(
        commands,
        "demo",
        summary="try everything in a throw-away home, without an agent",
        description="Show sessions in every state, with tabs and how to get back in, in a home that is thrown away.",
        epilog=_EPILOG,
    )
    parser.add_argument("--port", type=parse_port, metavar="N", help="listen on this port (default: any free one)")
    parser.add_argument("--open", action="store_true", help="open the page in a browser")
    parser.add_argument(
        "--keep", action="store_true", help="keep the directory at the end; its processes end all the same"
    )
    return parser


def run(args: argparse.Namespace) -> int:
    from corral.demo.demonstration import Demonstration
    from corral.demo.ending import sweep_leftovers

    for swept in sweep_leftovers():
        if swept.problem is None:
            tell(f"cleaned up after a demo that was killed ({swept.root})")
        else:
            tell(f"could not clean up after a demo that was killed: {swept.problem}")
    demonstration = Demonstration(keep=args.keep)
    for number in _SIGNALS:
        signal.signal(number, _interrupt)
    try:
        tell("setting the scenes, a few seconds …")
        demonstration.begin(args.port, lambda title: tell(f"  {title}"))
        _show(demonstration.link, demonstration.place.corral if demonstration.place else "corral")
        if args.open:
            from corral.cli.browsing import open_in_browser

            assert demonstration.place is not None
            open_in_browser(demonstration.link, demonstration.place.state)
        demonstration.wait()
    except KeyboardInterrupt:
        pass
    finally:
        _ignore_signals()  # once is enough: what has begun to end is ended
        demonstration.end()
    _say_goodbye(demonstration.place.root if args.keep and demonstration.place else None)
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    _ignore_signals()
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in _SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _show(link: str, corral: str) -> None:
    print(link, flush=True)
    print(_TOUR.format(corral=corral), file=sys.stderr, flush=True)


def _say_goodbye(kept: str | None) -> None:
    tell(f"the demo has ended; its files are in {kept}" if kept else "the demo has ended, and nothing is left of it")
