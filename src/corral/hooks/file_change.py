"""When the file that a path leads to may last have become another one."""

from __future__ import annotations

import os
import stat

_MOST_LINKS = 40


def last_change(path: str) -> float | None:
    """The latest ctime of the file and of every link that leads to it, in epoch seconds; None when there is none.

    A link that was made to lead elsewhere is younger than the file that it leads to now. What became of the
    directories above is not looked at.
    """
    found: list[float] = []
    for _ in range(_MOST_LINKS):
        try:
            status = os.lstat(path)
            found.append(status.st_ctime)
            if not stat.S_ISLNK(status.st_mode):
                return max(found)
            path = os.path.join(os.path.dirname(path), os.readlink(path))
        except (OSError, ValueError):
            return None
    return None
