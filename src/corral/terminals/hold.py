"""From an order on standard input to a running holder: detach, fork the program, get on record, let it begin.

Standard library only.
"""

from __future__ import annotations

import errno
import gc
import os
import signal
import termios
from collections.abc import Mapping, Sequence
from fcntl import ioctl
from select import POLLIN, poll
from struct import pack
from typing import NamedTuple

from corral.model.frames import VERSIONS
from corral.terminals.files import EXIT, LOG, RECORD, SOCKET, TerminalFiles, identity_of
from corral.terminals.holder import Holder
from corral.terminals.protocol import pack_texts, unpack_texts

_GO_SECONDS = 60
_FIXED = 6
_FIRST_LINE = 256
_NOT_RUN = 127


class Order(NamedTuple):
    """What to hold, and where."""

    tab: str
    directory: str
    cwd: str
    columns: int
    rows: int
    argv: Sequence[str]
    """The program as an absolute path, and its arguments."""
    env: Mapping[str, str]
    """The whole environment."""


def pack_order(order: Order) -> bytes:
    texts = [order.tab, order.directory, order.cwd, str(order.columns), str(order.rows), str(len(order.argv))]
    data = pack_texts([*texts, *order.argv, *(word for pair in order.env.items() for word in pair)])
    return len(data).to_bytes(4) + data


def _unpack_order(data: bytes) -> Order:
    words = unpack_texts(data)
    tab, directory, cwd, columns, rows, count = words[:_FIXED]
    argv, rest = words[_FIXED : _FIXED + int(count)], words[_FIXED + int(count) :]
    return Order(tab, directory, cwd, int(columns), int(rows), argv, dict(zip(rest[::2], rest[1::2], strict=True)))


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

    def set_size(self, columns: int, rows: int) -> None:
        """The kernel tells the foreground program by SIGWINCH if it changed. Raises OSError."""
        _set_size(self.master, columns, rows)

    def signal(self, number: int) -> bool:
        """Through the pidfd, so that nobody else can get it. False when the child has ended."""
        try:
            signal.pidfd_send_signal(self.pidfd, number)
        except ProcessLookupError:
            return False
        return True

    def reap(self) -> int | None:
        """The exit code, or the negative signal; None while it runs."""
        try:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
        except ChildProcessError:
            return _NOT_RUN
        return os.waitstatus_to_exitcode(status) if pid else None


def hold() -> None:
    """The whole life of a holder process."""
    os.chdir("/")
    umask = os.umask(0o077)  # what the holder writes is its user's alone; the program gets back what was in force
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # the end of the terminal it was started from is not its own
    order = _unpack_order(_read_exactly(int.from_bytes(_read_exactly(4))))
    if os.fork():
        os._exit(0)  # the holder is nobody's child, and nobody has to wait for it
    try:
        _hold(order, umask)
    except OSError as error:
        _tell(f"failed {error.strerror or error}{f': {error.filename}' if error.filename else ''}")
        os._exit(1)


def _hold(order: Order, umask: int) -> None:
    files = TerminalFiles(order.directory, order.tab)
    child = None
    try:
        server = files.listen()
        child = _fork_child(order.argv, order.cwd, order.env, (order.columns, order.rows), umask)
        identity = identity_of(child.pid)
        files.write_record(identity, VERSIONS[1])
        _tell(f"forked {os.getpid()} {identity.pid} {identity.start_ticks}")
        _await_go()
        _begin(child, order)
    except OSError:
        if child is not None:
            child.signal(signal.SIGKILL)
        files.remove(SOCKET, RECORD, EXIT, LOG)
        raise
    _tell("begun")
    _leave_starter()
    gc.collect()
    try:
        Holder(order.tab, files, server, child, identity, (order.columns, order.rows)).run()
    except BaseException as error:
        files.log(f"the holder fails: {error!r}")
        files.remove(SOCKET, RECORD)
        raise


def _fork_child(argv: Sequence[str], cwd: str, env: Mapping[str, str], size: tuple[int, int], umask: int) -> Child:
    """Fork, give the child the terminal as its session's own, and let it wait. Raises OSError."""
    master, slave = os.openpty()  # both are not inheritable, as all that Python opens
    waiting, go = os.pipe()
    problem, tell = os.pipe()
    try:
        _set_size(slave, *size)
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
        # No byte: whoever wanted it is gone. Descriptors other than 0, 1 and 2 close when the program begins.
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
    """Erasing takes a whole UTF-8 character, as people expect: the kernel does not set this by itself."""
    iutf8 = 0x4000
    settings = termios.tcgetattr(fd)
    settings[0] |= iutf8
    termios.tcsetattr(fd, termios.TCSANOW, settings)


def _set_size(fd: int, columns: int, rows: int) -> None:
    ioctl(fd, termios.TIOCSWINSZ, pack("HHHH", rows, columns, 0, 0))


def _begin(child: Child, order: Order) -> None:
    os.write(child.go, b"g")
    os.close(child.go)
    problem = os.read(child.problem, 16)
    os.close(child.problem)
    if problem:
        number = int(problem.removeprefix(b"d"))
        in_directory = problem.startswith(b"d")
        raise OSError(number, _say_not_begun(number, order.argv[0], order.cwd, in_directory=in_directory))


def _await_go() -> None:
    waiting = poll()
    waiting.register(0, POLLIN)
    if not waiting.poll(_GO_SECONDS * 1000) or os.read(0, 1) != b"g":
        raise OSError(125, "whoever started it is gone")


def _read_exactly(length: int) -> bytes:
    data = b""
    while len(data) < length:
        part = os.read(0, length - len(data))
        if not part:
            os._exit(1)
        data += part
    return data


def _tell(text: str) -> None:
    try:
        os.write(1, f"{text}\n".encode("utf-8", "replace"))
    except OSError:
        pass  # nobody listens any more, and what matters is on record


def _leave_starter() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(null, fd)
    os.close(null)


def _say_not_begun(number: int, program: str, cwd: str, *, in_directory: bool) -> str:
    """Why it could not be started: the kernel does not name the cause, and not always the right file.

    `number` is the errno; `in_directory`: it came from entering `cwd`, and not from the program.
    """
    if in_directory:
        return _say_directory(number, cwd)
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return _say_missing(program)
        case errno.EACCES if os.path.isdir(program):
            return f"{program} is a directory, not a program"
        case errno.EACCES | errno.EPERM:
            return f"no permission to run {program}"
        case errno.ENOEXEC:
            return f"{program} is not a program that this machine can run"
        case errno.ETXTBSY:
            return f"{program} is being written at this moment"
        case errno.E2BIG:
            return f"{program} can't be started: its arguments and its environment are too long"
        case _:
            return f"{program} can't be started: {os.strerror(number)}"


def _say_directory(number: int, cwd: str) -> str:
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return f"its working directory is gone: {cwd}"
        case errno.EACCES | errno.EPERM:
            return f"no permission to enter its working directory: {cwd}"
        case _:
            return f"can't enter its working directory: {cwd}: {os.strerror(number)}"


def _say_missing(program: str) -> str:
    """The file may be there and lack something: a script its interpreter, a binary its loader."""
    if not os.path.lexists(program):
        return f"there is no program {program}"
    if not os.path.exists(program):
        return f"{program} is a link to {os.path.realpath(program)}, which is not there"
    interpreter = _read_interpreter(program)
    if interpreter is not None:
        return f"{program} is a script for {interpreter}, which is not there"
    return f"{program} needs a loader that is not on this machine"


def _read_interpreter(program: str) -> str | None:
    try:
        with open(program, "rb") as file:
            line = file.readline(_FIRST_LINE)
    except OSError:
        return None
    words = line[2:].split(None, 1) if line.startswith(b"#!") else []
    return os.fsdecode(words[0]) if words else None
