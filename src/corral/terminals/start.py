"""Starting a program in a terminal of its own: a holder process, on record before the program begins."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from corral.machine.descriptors import is_ready, with_given_limit
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity
from corral.terminals.directory import TAB_VARIABLE
from corral.terminals.hold import Order, pack_order

_PREFIXES = ("TMUX", "KITTY_", "KONSOLE_", "ALACRITTY_", "WEZTERM_", "ITERM_", "WT_", "GNOME_TERMINAL_", "ZELLIJ")
_NAMES = frozenset(
    "STY WINDOW WINDOWID COLUMNS LINES TERMCAP TERM_PROGRAM TERM_PROGRAM_VERSION TERM_SESSION_ID".split()  # noqa: SIM905
    + "LC_TERMINAL LC_TERMINAL_VERSION VTE_VERSION VSCODE_INJECTION".split()  # noqa: SIM905
)
_KEPT = frozenset(("TMUX_TMPDIR",))
_HOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "__main__.py")
_START_SECONDS = 30.0


class StartFailed(Exception):
    """The program was not started, and why."""


class Started(NamedTuple):
    """A terminal and the two processes behind it."""

    tab: str
    holder: ProcessIdentity
    child: ProcessIdentity


def new_tab_id() -> str:
    """A name for a terminal that no other ever has."""
    return secrets.token_hex(8)


def terminal_environment(env: Mapping[str, str], tab: str) -> dict[str, str]:
    """For a program that any viewer may look at: the terminal that most of them are."""
    kept = {name: value for name, value in env.items() if not _names_another(name)}
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor", TAB_VARIABLE: tab}


def _names_another(variable: str) -> bool:
    return variable in _NAMES or (variable.startswith(_PREFIXES) and variable not in _KEPT)


def start_terminal(
    directory: str,
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    columns: int = 80,
    rows: int = 24,
    tab: str | None = None,
    on_forked: Callable[[Started], None] | None = None,
) -> Started:
    """Hold `argv` (its program an absolute path) in a new terminal; it goes on when this process ends.

    `directory` is that of the sockets (`terminals_dir()`). `on_forked` is called when the processes exist and the
    program has not begun: what it writes is on record before anything happens. If it raises, nothing happens.

    Raises StartFailed. Blocks for about 50 ms; from asyncio call it in a thread.
    """
    tab = tab or new_tab_id()
    order = Order(tab, directory, cwd, columns, rows, argv, env)
    process = subprocess.Popen(
        with_given_limit([sys.executable, "-I", "-S", _HOLDER]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={},
        cwd="/",
        close_fds=True,
        start_new_session=True,
    )
    assert process.stdin is not None and process.stdout is not None
    with process.stdin as order_in, process.stdout as told:
        # Whatever fails before the last word: the holder sees its input end, and begins nothing.
        started = _await_forked(_tell_order(process, order_in, pack_order(order), told), tab)
        if on_forked is not None:
            on_forked(started)
        with suppress(BrokenPipeError):  # then it has said why
            order_in.write(b"g")
            order_in.flush()
        answer = _hear(told, f"the holder, pid {started.holder.pid}, does not say whether the program began").strip()
    if answer != "begun":
        raise StartFailed(answer.removeprefix("failed ") or "the holder ended without reporting")
    return started


def _tell_order(process: subprocess.Popen[bytes], order_in: IO[bytes], order: bytes, told: IO[bytes]) -> str:
    try:
        order_in.write(order)
        order_in.flush()
        process.wait(_START_SECONDS)  # it forks the holder and ends
    except (OSError, subprocess.TimeoutExpired) as error:
        process.kill()
        process.wait()
        raise StartFailed(f"the holder did not start: {error}") from error
    return _hear(told, "the holder does not say what it has started")


def _hear(told: IO[bytes], silence: str) -> str:
    """The holder's next line. It writes one, and the next only after we let it go on."""
    if not is_ready(told.fileno(), _START_SECONDS):
        raise StartFailed(f"{silence}: no answer in {_START_SECONDS:.0f} s")
    return told.readline().decode(errors="replace")


def _await_forked(line: str, tab: str) -> Started:
    words = line.split()
    if len(words) != 4 or words[0] != "forked":
        raise StartFailed(line.strip().removeprefix("failed ") or "the holder ended without reporting")
    holder, child = read_identity(int(words[1])), read_identity(int(words[2]))
    if holder is None or child is None or child.start_ticks != int(words[3]):
        raise StartFailed("the holder ended at once")
    return Started(tab, holder, child)
