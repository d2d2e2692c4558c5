"""Opening a link in the person's browser: the code is in a file that only they can read, never in an argument."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from corral.system.descriptors import with_given_limit

OPEN_SECONDS = 60.0
"""How long the file is there for a browser that takes its time."""
_PREFIX, _SUFFIX = "corral-login-", ".html"
_STALE_SECONDS = 600.0
_LOOK_SECONDS = 0.25
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={link}"><title>corral</title></head>
<body><p>To corral …</p></body></html>
"""


def open_in_browser(link: str, is_used: Callable[[], bool]) -> None:
    """Returns at once. The file goes when the link was used, or after a minute."""
    place = _find_place()
    _sweep(place)
    path = place / f"{_PREFIX}{secrets.token_hex(8)}{_SUFFIX}"
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "w") as file:
        file.write(_PAGE.format(link=link))
    # In a process of its own: some browsers are waited for to their end, and Ctrl-C here is not meant for them.
    process = subprocess.Popen(
        with_given_limit([sys.executable, "-m", "webbrowser", path.as_uri()]),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(path.unlink, missing_ok=True)
    threading.Thread(target=_clear_up, args=(path, is_used), name="login-file", daemon=True).start()
    threading.Thread(target=process.wait, name="browser", daemon=True).start()


def _find_place() -> Path:
    """Browsers that are confined (snap, flatpak) see neither /tmp nor hidden directories; Downloads they do."""
    home = Path.home()
    for place in (home / "Downloads", home):
        if place.is_dir() and os.access(place, os.W_OK) and place.stat().st_uid == os.getuid():
            return place
    return home


def _clear_up(path: Path, is_used: Callable[[], bool]) -> None:
    until = time.monotonic() + OPEN_SECONDS
    while time.monotonic() < until and not is_used():
        time.sleep(_LOOK_SECONDS)
    path.unlink(missing_ok=True)


def _sweep(place: Path) -> None:
    """What a server left that was killed in that minute; its code is void by now."""
    for left in place.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            status = left.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _STALE_SECONDS:
                left.unlink()
