"""The environment of a program in a terminal of ours: that of its starter, less what names another terminal."""

from __future__ import annotations

from collections.abc import Mapping

TAB_VARIABLE = "CORRAL_TAB"
_PREFIXES = ("TMUX", "KITTY_", "KONSOLE_", "ALACRITTY_", "WEZTERM_", "ITERM_", "WT_", "GNOME_TERMINAL_", "ZELLIJ")
_NAMES = frozenset(
    "STY WINDOW WINDOWID COLUMNS LINES TERMCAP TERM_PROGRAM TERM_PROGRAM_VERSION TERM_SESSION_ID".split()  # noqa: SIM905
    + "LC_TERMINAL LC_TERMINAL_VERSION VTE_VERSION VSCODE_INJECTION".split()  # noqa: SIM905
)
_KEPT = frozenset(("TMUX_TMPDIR",))


def terminal_environment(env: Mapping[str, str], tab: str) -> dict[str, str]:
    """For a program that any viewer may look at: the terminal that most of them are."""
    kept = {name: value for name, value in env.items() if not _names_another(name)}
    return kept | {"TERM": "xterm-256color", "COLORTERM": "truecolor", TAB_VARIABLE: tab}


def _names_another(variable: str) -> bool:
    return variable in _NAMES or (variable.startswith(_PREFIXES) and variable not in _KEPT)
