"""Where corral keeps its own files: state, data and cache, each movable by one variable."""

from __future__ import annotations

import os


def state_dir() -> str:
    """What must outlive a restart: journals, installation records, backups. Writers create it, mode 0700."""
    return _absolute(os.environ.get("CORRAL_STATE_DIR")) or _platform("state")


def data_dir() -> str:
    """What corral places for others to run: the hook program. Writers create it, mode 0700."""
    return _absolute(os.environ.get("CORRAL_DATA_DIR")) or _platform("data")


def cache_dir() -> str:
    """What may be deleted at any time. Writers create it, mode 0700."""
    return _absolute(os.environ.get("CORRAL_CACHE_DIR")) or _platform("cache")


def _absolute(path: str | None) -> str | None:
    """Others run our files from other directories."""
    return os.path.abspath(path) if path else None


def _platform(kind: str) -> str:
    import platformdirs

    match kind:
        case "state":
            return platformdirs.user_state_dir("corral", appauthor=False)
        case "data":
            return platformdirs.user_data_dir("corral", appauthor=False)
        case _:
            return platformdirs.user_cache_dir("corral", appauthor=False)
