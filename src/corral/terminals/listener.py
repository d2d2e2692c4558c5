"""The holder's door: a Unix socket that only its own user may pass, also when descriptors run out.

Standard library only.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from socket import SO_PEERCRED, SOL_SOCKET, socket
from struct import unpack

_REST_SECONDS = 1.0


class Listener:
    """Accepts connections of this user and closes all others."""

    def __init__(self, server: socket, log: Callable[[str], None]) -> None:
        self._server = server
        self._log = log
        self._spare = _open_spare()
        self.rests_until = 0.0
        """On the monotonic clock: until then it is of no use to wait for connections."""

    def fileno(self) -> int:
        return self._server.fileno()

    def accept(self) -> socket | None:
        """The next connection, or None when there is none to be had."""
        try:
            connection, _ = self._server.accept()
        except BlockingIOError:
            return None
        except OSError as error:
            self._turn_away(error)
            return None
        _, uid, _ = unpack("3i", connection.getsockopt(SOL_SOCKET, SO_PEERCRED, 12))
        if uid != os.getuid():
            self._log(f"a connection of user {uid} was refused")
            connection.close()
            return None
        connection.setblocking(False)
        return connection

    def _turn_away(self, error: OSError) -> None:
        """Out of descriptors: the spare one lets us close the connection, instead of being woken by it for ever."""
        self._log(f"a connection could not be accepted: {error.strerror}")
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            return
        if self._spare is not None:
            os.close(self._spare)
        try:
            self._server.accept()[0].close()
        except BlockingIOError:
            pass  # it left by itself
        except OSError:
            self.rests_until = time.monotonic() + _REST_SECONDS
        self._spare = _open_spare()


def _open_spare() -> int | None:
    try:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
