"""Where corral keeps its own files: state, data, cache and config, each movable by one variable.

On Linux the XDG directories; elsewhere the platform's own. Written out here: the usual library for it costs a
tenth of the time that `corral ps` may take.
"""

from __future__ import annotations

import os
import sys

DEMO_VARIABLE = "CORRAL_DEMO"
"""Set, to its directory, in every process of a demonstration (`corral demo`)."""


def demo_dir() -> str | None:
    """The directory of the demonstration that this process is part of; None outside of one."""
    return os.environ.get(DEMO_VARIABLE) or None


def state_dir() -> str:
    """What must outlive a restart: journals, installation records, backups. Writers create it, mode 0700."""
    return _moved("CORRAL_STATE_DIR") or _place("XDG_STATE_HOME", ".local/state", "state")


def data_dir() -> str:
    """What corral places for others to run: the hook program. Writers create it, mode 0700."""
    return _moved("CORRAL_DATA_DIR") or _place("XDG_DATA_HOME", ".local/share", "data")


def cache_dir() -> str:
    """What may be deleted at any time. Writers create it, mode 0700."""
    return _moved("CORRAL_CACHE_DIR") or _place("XDG_CACHE_HOME", ".cache", "cache")


def config_dir() -> str:
    """What the person writes; corral only reads it."""
    return _moved("CORRAL_CONFIG_DIR") or _place("XDG_CONFIG_HOME", ".config", "config")


def _moved(variable: str) -> str | None:
    """Where the person wants it. A relative path would be another place in each directory: refused."""
    path = os.environ.get(variable)
    if path and not os.path.isabs(path):
        from corral.errors import CorralError

        hint = f"for example {variable}={os.path.abspath(os.path.expanduser(path))}"
        raise CorralError(f"{variable} is {path!r}, which is not an absolute path", hint=hint, exit_code=2)
    return path or None


def _place(variable: str, below_home: str, kind: str) -> str:
    if sys.platform == "darwin":
        parent = "Library/Caches/corral" if kind == "cache" else f"Library/Application Support/corral/{kind}"
        return os.path.join(os.path.expanduser("~"), parent)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or os.path.join(os.path.expanduser("~"), "AppData", "Local")
        return os.path.join(base, "corral", kind)
    base = os.environ.get(variable, "")
    # The specification: a relative path is invalid and must be ignored.
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), below_home)
    return os.path.join(base, "corral")
