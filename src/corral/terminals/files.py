"""The files of one terminal: socket, record, exit status, log. Part of the holder: standard library only."""

from __future__ import annotations

import json
import os
import time
from socket import AF_UNIX, SOCK_STREAM, socket

from corral.sidecar.atomic import Directory, replace
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import hostname, own_identity, read_identity

SOCKET, RECORD, EXIT, LOG = ".sock", ".json", ".exit", ".log"
_LOG_LIMIT = 1 << 16
_WAITING = 16


class TerminalFiles:
    """What a holder keeps below `<state>/terminals`, all named by its tab. Raises OSError where nothing is said."""

    def __init__(self, directory: str, tab: str) -> None:
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._directory = Directory(directory)
        status = os.fstat(self._directory.fd or 0)
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise PermissionError(1, "it must belong to you alone (mode 0700)", directory)
        self._tab = tab
        self._log = os.open(self._path(LOG), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def listen(self) -> socket:
        server = socket(AF_UNIX, SOCK_STREAM)
        server.setblocking(False)
        before = os.umask(0o177)  # a socket's mode is what the umask leaves of 0777
        try:
            server.bind(self._path(SOCKET))
        finally:
            os.umask(before)
        server.listen(_WAITING)
        return server

    def write_record(self, child: ProcessIdentity, version: int) -> None:
        """Which process holds which program: whoever looks for terminals reads it."""
        holder = own_identity()
        if holder is None:
            raise OSError(38, "this system does not say which process this is")
        record = {
            "schema": 1,
            "tab": self._tab,
            "hostname": hostname(),
            "holder": list(holder),
            "child": list(child),
            "protocol": version,
            "started_at": round(time.time(), 3),
        }
        replace(self._directory, self._tab + RECORD, json.dumps(record).encode(), holder)

    def write_exit(self, child: ProcessIdentity, status: int, ended_at: float) -> bool:
        """Kept until somebody has seen it. False when the disk does not take it now."""
        record = {"schema": 1, "tab": self._tab, "child": list(child), "status": status, "ended_at": round(ended_at, 3)}
        try:
            replace(self._directory, self._tab + EXIT, json.dumps(record).encode(), own_identity())
        except OSError as error:
            self.log(f"the exit status could not be written: {error.strerror}")
            return False
        return True

    def log(self, text: str) -> None:
        """One bounded file; what the terminal shows and what is typed never gets here."""
        line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}\n"
        try:
            if os.fstat(self._log).st_size > _LOG_LIMIT:
                os.truncate(self._log, 0)
            os.write(self._log, line.encode("utf-8", "replace"))
        except OSError:
            pass  # a full disk must not end an agent

    def remove(self, *kinds: str) -> None:
        for kind in kinds:
            try:
                os.unlink(self._tab + kind, dir_fd=self._directory.fd)
            except OSError:
                pass  # gone already, or the next sweep takes it

    def _path(self, kind: str) -> str:
        # A socket's path is at most 107 bytes long: through the descriptor it always is.
        return f"/proc/self/fd/{self._directory.fd}/{self._tab}{kind}"


def identity_of(pid: int) -> ProcessIdentity:
    """Of a child that was not reaped yet, so that the number can't have passed to another."""
    identity = read_identity(pid)
    if identity is None:
        raise OSError(3, "the program ended before it began")
    return identity
