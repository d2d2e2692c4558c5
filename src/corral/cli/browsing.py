"""Opening a link in the person's browser: the code is in a file that only they can read, never in an argument."""

from __future__ import annotations

import atexit
import os
import secrets
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

from corral.cli.asking import tell
from corral.machine.descriptors import with_given_limit
from corral.server.server_files import ServerFiles

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


def open_in_browser(link: str, state_dir: str, *, wait: bool = False) -> None:
    """Returns at once; with `wait`, when the link was used, or after a minute: until then its file is there."""
    try:
        path = _write_page(link)
    except OSError as error:
        tell(f"no browser was opened: {error.filename}: {error.strerror}; open the link yourself")
        return
    atexit.register(path.unlink, missing_ok=True)
    # In a process of its own: some browsers are waited for to their end, and Ctrl-C here is not meant for them. Nothing
    # of the directory it was started in is run (-I).
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
    """Browsers that are confined (snap, flatpak) see neither /tmp nor hidden directories; Downloads they do."""
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
    """What a server left that was killed in that minute; its code is void by now."""
    for left in place.glob(f"{_PREFIX}*{_SUFFIX}"):
        with suppress(OSError):
            status = left.lstat()
            if status.st_uid == os.getuid() and time.time() - status.st_mtime > _STALE_SECONDS:
                left.unlink()
