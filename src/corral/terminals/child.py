"""The program in a terminal: forked on a PTY of its own, held back until it may begin, ended step by step.

Part of the holder: standard library only.
"""

from __future__ import annotations

import errno
import os
import signal
import termios
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from struct import pack
from typing import NamedTuple

_NOT_RUN = 127


class Child(NamedTuple):
    """The forked program and what the holder keeps of it."""

    pid: int
    pidfd: int
    master: int
    """The terminal's other side: non-blocking, not inheritable."""
    go: int
    """One byte written here lets it begin; closing it first ends it unbegun."""
    problem: int
    """Read to its end: empty once it has begun, else the errno as text, after a "d" if its directory was at fault."""


def fork_child(argv: Sequence[str], cwd: str, env: Mapping[str, str], size: tuple[int, int], umask: int) -> Child:
    """Fork, give the child the terminal as its session's own, and let it wait. Raises OSError."""
    master, slave = os.openpty()  # both are not inheritable, as all that Python opens
    waiting, go = os.pipe()
    problem, tell = os.pipe()
    try:
        set_size(slave, *size)
        _set_input_flags(slave)
        pid = os.fork()
    except BaseException:
        for fd in (master, slave, waiting, go, problem, tell):
            os.close(fd)
        raise
    if pid == 0:
        os.umask(umask)
        _become(argv, cwd, env, slave, waiting, tell)
    for fd in (slave, waiting, tell):
        os.close(fd)
    os.set_blocking(master, False)
    return Child(pid, os.pidfd_open(pid), master, go, problem)


def _become(argv: Sequence[str], cwd: str, env: Mapping[str, str], slave: int, waiting: int, tell: int) -> None:
    """In the child: never returns."""
    step = b""
    try:
        os.setsid()
        ioctl(slave, termios.TIOCSCTTY, 0)
        for fd in (0, 1, 2):
            os.dup2(slave, fd)
        # Whoever started us may ignore some of them: a job in the background of a script ignores SIGINT and SIGQUIT.
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        # Without a word the one who wanted it is gone. All but 0, 1 and 2 closes by itself when the program begins.
        if os.read(waiting, 1) != b"g":
            os._exit(_NOT_RUN)
        step = b"d"
        os.chdir(cwd)
        step = b""
        os.execve(argv[0], list(argv), env)
    except OSError as error:
        os.write(tell, b"%s%d" % (step, error.errno or errno.EIO))
    finally:
        os._exit(_NOT_RUN)


def _set_input_flags(fd: int) -> None:
    """What people expect of a terminal and the kernel does not set: erasing takes a whole UTF-8 character."""
    iutf8 = 0x4000
    settings = termios.tcgetattr(fd)
    settings[0] |= iutf8
    termios.tcsetattr(fd, termios.TCSANOW, settings)


def set_size(fd: int, columns: int, rows: int) -> None:
    """The kernel tells the foreground program by SIGWINCH if it changed. Raises OSError."""
    ioctl(fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))


def signal_child(child: Child, number: int) -> bool:
    """Through the pidfd, so that nobody else can get it. False when the child has ended."""
    try:
        signal.pidfd_send_signal(child.pidfd, number)
    except ProcessLookupError:
        return False
    return True


def reap(child: Child) -> int | None:
    """The exit code, or the negative signal; None while it runs."""
    try:
        pid, status = os.waitpid(child.pid, os.WNOHANG)
    except ChildProcessError:
        return _NOT_RUN
    return os.waitstatus_to_exitcode(status) if pid else None
