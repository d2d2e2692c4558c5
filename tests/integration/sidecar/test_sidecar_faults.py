"""Every system call of a write fails once, in every way: the file holds the old record or the new one."""

import compileall
import json
import os
import re
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from corral import sidecar
from corral.sidecar.atomic import temp_name
from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.record import RuntimeRecord, encode, parse

WRITER = str(Path(__file__).with_name("write_once.py"))
ERRORS = ["error=EIO", "error=ENOSPC", "error=EPERM", "error=EACCES", "error=EINTR", "signal=SIGKILL"]
ELSEWHERE = ["error=EIO", "signal=SIGKILL"]
"""For calls outside the session's directory (/proc, the host's name): they only inform."""
SHORT = ["retval=3", "retval=0"]
IGNORED = {
    "getpid",
    "brk",
    "mmap",
    "munmap",
    "mprotect",
    "madvise",
    "futex",
    "rt_sigaction",
    "rt_sigprocmask",
}
"""Calls about memory and the interpreter itself."""
_CALL = re.compile(r"^(?:\d+ +)?(\w+)\((.*)$")


@pytest.fixture
def environment(environment: dict[str, str], tmp_path: Path) -> dict[str, str]:
    """With a copy of the sidecar alone, compiled beforehand: each run then makes the same calls."""
    source = tmp_path / "source"
    shutil.copytree(Path(sidecar.__file__).parent, source / "corral" / "sidecar")
    (source / "corral" / "__init__.py").write_text("")
    assert compileall.compile_dir(source, quiet=1)
    return environment | {"PYTHONPATH": str(source)}


class Fault(NamedTuple):
    """The N-th call of a name, counted from the start of the process, and what happens to it."""

    call: str
    number: int
    effect: str
    line: str

    def __str__(self) -> str:
        return f"{self.call}:{self.effect}:when={self.number}  {self.line[:120]}"


def prepare(directory: Path) -> bytes:
    """A session whose last writer is dead (its PID is another process's now) and which left a temp behind."""
    own = sidecar.own_identity()
    assert own is not None
    dead = own._replace(start_ticks=1)
    old = RuntimeRecord(
        pid=own.pid,
        session_id="old",
        work_dir="/w",
        hostname=os.uname().nodename,
        started_at=1794770442.0,
        cli="kimi_cli",
        version="1",
        boot_id=dead.boot_id,
        start_ticks=dead.start_ticks,
        pid_ns=dead.pid_ns,
    )
    directory.mkdir()
    (directory / "runtime.json").write_bytes(encode(old))
    (directory / fixed_temp(dead)).write_bytes(b"{")
    return encode(old)


def fixed_temp(writer: ProcessIdentity) -> str:
    return re.sub(r"\.[0-9a-f]{16}\.tmp", ".0123456789abcdef.tmp", temp_name("runtime.json", writer))


def run(
    strace: str, environment: dict[str, str], directory: Path, trace: Path, *options: str
) -> tuple[int, str, list[str]]:
    command = [strace, "-f", "-qq", "-y", "-s", "16", "-o", str(trace), *options]
    command += [sys.executable, "-I", "-S", "-B", WRITER, environment["PYTHONPATH"], str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    said = done.stderr.strip().splitlines()[-1] if "Traceback" in done.stderr else done.stdout.strip()
    return done.returncode, said, trace.read_text(errors="replace").splitlines()


def list_faults(lines: list[str], directory: Path) -> list[Fault]:
    """All faults for the calls between the two marks of a clean trace."""
    faults: list[Fault] = []
    counts: dict[str, int] = {}
    inside = False
    for line in lines:
        found = _CALL.match(line)
        if found is None:
            continue
        name = found[1]
        counts[name] = counts.get(name, 0) + 1
        if "/mark-" in line:
            inside = "/mark-begin" in line
        elif inside and name not in IGNORED:
            effects = list(ERRORS if str(directory) in line else ELSEWHERE)
            if name == "write":
                effects += SHORT
            faults += [Fault(name, counts[name], effect, found[0]) for effect in effects]
    return faults


def check(fault: Fault, strace: str, environment: dict[str, str], place: Path) -> str | None:
    """What was wrong after this fault, or None."""
    directory = place / "session"
    place.mkdir()
    old = prepare(directory)
    inject = f"inject={fault.call}:{fault.effect}:when={fault.number}"
    code, said, lines = run(strace, environment, directory, place / "trace", "-e", f"trace={fault.call}", "-e", inject)
    killed = fault.effect == "signal=SIGKILL"
    if not killed and not any("(INJECTED)" in line for line in lines):
        return "the fault did not happen"
    if killed != (code not in (0, 1)) and not (killed and code == 137):
        return f"exit code {code}"
    if not killed and (code != 0 or not said):
        return f"the caller was disturbed: exit code {code}, said {said!r}"
    content = (directory / "runtime.json").read_bytes()
    record = parse(content)
    if content != old and not (isinstance(record, RuntimeRecord) and record.session_id == "new"):
        return f"neither old nor new: {content!r}"
    if said == "ok" and content == old:
        return "it says ok and nothing was written"
    temps = [name for name in os.listdir(directory) if name.endswith(".tmp")]
    swept_failed = fault.call in (
        "unlinkat",
        "getdents64",
        "fcntl",
        "openat",
        "newfstatat",
        "read",
        "lseek",
        "uname",
    )
    if not killed and len(temps) > (1 if swept_failed or said != "ok" else 0):
        return f"temps left by a writer that lived on: {temps}"
    after = sidecar.write(directory, session_id="after", work_dir="/w", cli="kimi-cli", version="1", best_effort=True)
    if not isinstance(after, RuntimeRecord):
        return f"the next start could not write: {after}"
    if os.listdir(directory) != ["runtime.json"]:
        return f"left after the next start: {os.listdir(directory)}"
    return None


def test_every_system_call_of_a_write_may_fail(tmp_path: Path, strace: str, environment: dict[str, str]):
    clean = tmp_path / "clean"
    clean.mkdir()
    directory = clean / "session"
    prepare(directory)
    code, said, lines = run(strace, environment, directory, clean / "trace")
    assert (code, said) == (0, "ok")
    faults = list_faults(lines, directory)
    names = {fault.call for fault in faults}
    assert {"openat", "write", "fsync", "renameat", "close", "flock", "unlinkat"} <= names, names
    assert len(faults) > 150

    with ThreadPoolExecutor(max_workers=os.cpu_count() or 2) as pool:
        places = [tmp_path / str(number) for number in range(len(faults))]
        problems = list(
            pool.map(lambda pair: check(pair[0], strace, environment, pair[1]), zip(faults, places, strict=True))
        )
    wrong = [f"{fault}: {problem}" for fault, problem in zip(faults, problems, strict=True) if problem]
    assert not wrong, f"{len(wrong)} of {len(faults)} faults:\n" + "\n".join(wrong[:20])
    print(f"{len(faults)} faults in {len(names)} system calls: {json.dumps(sorted(names))}")


@pytest.mark.parametrize("call", ["openat", "fsync", "renameat"])
def test_a_disk_that_goes_on_failing_is_survived(tmp_path: Path, strace: str, environment: dict[str, str], call: str):
    old = prepare(tmp_path / "session")
    options = [
        "-e",
        f"trace={call},newfstatat",
        "-P",
        str(tmp_path / "session"),
        "-e",
        f"inject={call}:error=EIO",
    ]
    code, said, _ = run(strace, environment, tmp_path / "session", tmp_path / "trace", *options)
    assert code == 0 and said == "io:EIO"
    assert (tmp_path / "session" / "runtime.json").read_bytes() == old or call == "fsync"
