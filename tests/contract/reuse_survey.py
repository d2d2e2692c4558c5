"""Gives the PID of dead agents to strangers, and asks the code path of `corral ps` after each reuse who is live.

Runs as the first process of a private PID namespace with a host name of its own, in a home of its own ($HOME), where
it may say which number comes next. Each round: a process has a PID; a record of the kind that its CLI or our hook
leaves names it; a survey finds the session live; the process is killed; a stranger gets the number; a survey is taken
again. All records that earlier rounds left stay there. Prints its counts as JSON.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import msgspec

from corral.hooks.program.journal_file import Header, add_event, directory_of, encode, load, path_of
from corral.machine import places
from corral.machine.host import read_boot_id, read_own_pid_namespace
from corral.machine.processes import identify
from corral.machine.procfs import read_stat
from corral.model.key import SessionKey
from corral.model.selection import NOTEWORTHY, Selection
from corral.sessions.survey import take_survey
from corral.sidecar import record as runtime
from corral.sidecar.identity import ProcessIdentity
from corral.state.launches import Launch, Launches
from tests.long_run import is_time_over

FIXTURES = Path(__file__).parents[1] / "providers" / "fixtures"
WORK_DIR = "/home/dev/projects/app"
KIMI_CLI = ".kimi/sessions/a4d2cd2663893c14bb5cfde43ebe3eb3"
KIMI_CODE = ".kimi-code/sessions/wd_app_b6c1126a8611"
QWEN = ".qwen/projects/-home-dev-projects-app/chats"
ROUNDS_PER_NUMBER = 50
RECORDS_KEPT = 10
WAIT_SECONDS = 60
AGES_S = (0.1, 5.0)
"""How old a record without an identity is when the stranger begins. To run through all numbers takes a machine
seconds; below 50 ms such a record and the start of its own writer could not be told apart."""
CORRAL = (sys.executable, "-m", "corral")
_CAT, _SLEEP = shutil.which("cat") or "/bin/cat", shutil.which("sleep") or "/bin/sleep"

States = dict[str, str]


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of record: how it is written, and what a survey says of its session while the process lives."""

    provider: str
    session_id: str
    write: Callable[[ProcessIdentity, float], None]
    """For a process, so many seconds ago: that matters only where the record has no identity."""
    has_identity: bool = True
    state: str = "live"


class Machine:
    """The processes: who has the number, and who gets it next."""

    guises = ("kimi-cli", "kimi-code", "qwen-code", "another program")

    def __init__(self, last_pid: TextIO, home: Path) -> None:
        self._last_pid = last_pid
        self._home = home
        place = home / "bin"
        package = place / "@qwen-code" / "qwen-code"
        package.mkdir(parents=True)
        for name in ("python3", "kimi-code", "node"):
            (place / name).symlink_to(_CAT)
        # Nobody ever writes into these: who reads them waits for good.
        self._scripts = [place / "kimi", package / "cli.js"]
        for script in self._scripts:
            os.mkfifo(script)
        self._words = {
            "kimi-cli": (place / "python3", ["python3", str(self._scripts[0])]),
            "kimi-code": (place / "kimi-code", ["kimi-code"]),
            "qwen-code": (place / "node", ["node", str(self._scripts[1])]),
            "another program": (Path(_SLEEP), [_SLEEP, "600"]),
        }

    def start(self, wanted: int, guise: str) -> ProcessIdentity:
        """A process with this very PID: `sleep`, or one that corral takes for an agent of this very home."""
        program, words = self._words[guise]
        stdin = (os.POSIX_SPAWN_OPEN, 0, str(self._scripts[0]), os.O_RDWR, 0)
        for _ in range(100):
            fcntl.flock(self._last_pid, fcntl.LOCK_EX)
            try:
                os.pwrite(self._last_pid.fileno(), str(wanted - 1).encode(), 0)
                pid = os.posix_spawn(program, words, {"HOME": str(self._home)}, file_actions=[stdin])
            finally:
                fcntl.flock(self._last_pid, fcntl.LOCK_UN)
            if pid == wanted:
                wait_for_its_words(pid, words)
                return read_identity(pid)
            stop(pid)
        raise AssertionError(f"pid {wanted} could not be had")


class Evidence:
    """The home: real session trees of the three CLIs, and every kind of record that can name a process."""

    def __init__(self, home: Path) -> None:
        self._home = home
        shutil.copytree(FIXTURES / "kimi-cli", home / ".kimi")
        shutil.copytree(FIXTURES / "kimi-code", home / ".kimi-code")
        shutil.copytree(FIXTURES / "qwen-code" / "home", home / ".qwen")
        for record in (home / ".qwen" / "sessions").iterdir():
            record.unlink()
        subprocess.run([*CORRAL, "hooks", "install"], stdout=subprocess.DEVNULL, timeout=120, check=True)
        exact, plain, launched, told, *_ = (path.name for path in sorted((home / KIMI_CLI).iterdir()))
        reported = sorted((home / KIMI_CODE).iterdir())[-1].name
        registered, beside = "11111111-1111-4111-8111-111111111111", "33333333-3333-4333-8333-333333333333"
        self.kinds = {
            "runtime.json with identity": self._kind("kimi-cli", exact, self._write_runtime),
            "runtime.json v1": self._kind("kimi-cli", plain, self._write_v1, has_identity=False),
            "launch record": self._kind("kimi-cli", launched, self._write_launch, state="pending"),
            "journal of Kimi CLI": self._kind("kimi-cli", told, self._write_kimi_cli_journal),
            "journal of Kimi Code": self._kind("kimi-code", reported, self._write_kimi_code_journal),
            "registry of Qwen Code": self._kind("qwen-code", registered, self._write_registry),
            "runtime.json of Qwen Code": self._kind("qwen-code", beside, self._write_qwen_runtime, has_identity=False),
        }

    def _kind(
        self,
        provider: str,
        session_id: str,
        write: Callable[[str, ProcessIdentity, float], None],
        *,
        has_identity: bool = True,
        state: str = "live",
    ) -> Kind:
        return Kind(provider, session_id, lambda one, age_s: write(session_id, one, age_s), has_identity, state)

    def _record(self, session_id: str, one: ProcessIdentity, age_s: float) -> runtime.RuntimeRecord:
        return runtime.RuntimeRecord(
            pid=one.pid,
            session_id=session_id,
            work_dir=WORK_DIR,
            hostname=os.uname().nodename,
            started_at=time.time() - age_s,
            cli="kimi-cli",
            version="1.51.0",
        )

    def _write_runtime(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        place = self._home / KIMI_CLI / session_id
        device, inode = place.stat().st_dev, place.stat().st_ino
        record = self._record(session_id, one, age_s)._replace(
            boot_id=one.boot_id, start_ticks=one.start_ticks, pid_ns=one.pid_ns, dir_device=device, dir_inode=inode
        )
        put(place / "runtime.json", runtime.encode(record))

    def _write_v1(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        place = self._home / KIMI_CLI / session_id
        put(place / "runtime.json", runtime.encode(self._record(session_id, one, age_s)))

    def _write_qwen_runtime(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        record = self._record(session_id, one, age_s)._replace(cli="qwen", version="0.24.4")
        put(self._home / QWEN / f"{session_id}.runtime.json", runtime.encode(record))

    def _write_registry(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        fields = {
            "schemaVersion": 1,
            "pid": one.pid,
            "procStart": f"{one.boot_id}:{one.start_ticks}",
            "pidNs": one.pid_ns,
            "sessionId": session_id,
            "cwd": WORK_DIR,
            "startedAt": (time.time() - age_s) * 1000,
            "qwenVersion": "0.24.4",
        }
        directory = self._home / ".qwen" / "sessions"
        forget_all_but_newest(directory)
        put(directory / f"{one.pid}.json", json.dumps(fields).encode())

    def _write_kimi_cli_journal(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        self._write_journal("kimi-cli", self._home / KIMI_CLI, session_id, one, age_s)

    def _write_kimi_code_journal(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        self._write_journal("kimi-code", self._home / KIMI_CODE, session_id, one, age_s)

    def _write_journal(self, provider: str, scope: Path, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        directory = directory_of(places.state_dir(), provider)
        os.makedirs(directory, exist_ok=True)
        forget_all_but_newest(Path(directory))
        home = str(scope.parents[1])
        home_id = identify(home)
        path = path_of(directory, one)
        fields = load(path, Header(provider, one, os.uname().nodename, home, list(home_id) if home_id else None))
        began = {"event": "start", "session_id": session_id, "at": time.time() - age_s, "scope": scope.name}
        add_event(fields, {**began, "boottime": time.clock_gettime(time.CLOCK_BOOTTIME) - age_s})
        put(Path(path), encode(fields))

    def _write_launch(self, session_id: str, one: ProcessIdentity, age_s: float) -> None:
        scope = self._home / KIMI_CLI
        forget_all_but_newest(Path(places.state_dir()) / "launches")
        key = SessionKey("kimi-cli", str(scope.parents[1]), scope.name, session_id)
        launch = Launch(
            key=key, identity=tuple(one), launched_at=time.time() - age_s, argv=("kimi",), cwd=WORK_DIR
        )  # fmt: skip
        Launches(places.state_dir()).write(launch)


class Tally:
    """What was seen, to be printed."""

    def __init__(self) -> None:
        self.reuses = 0
        self.verified = Counter[str]()
        """By kind: how often the session was live before, so that the record is one that corral believes."""
        self.after = Counter[str]()
        self.strangers = Counter[str]()
        self.false: list[object] = []

    def note(self, kind: str, session_id: str, guise: str, states: States) -> None:
        self.reuses += 1
        self.strangers[guise] += 1
        self.after[f"{kind}: {states.get(session_id, 'at rest')}"] += 1
        if wrong := {one: state for one, state in states.items() if state in ("live", "pending")}:
            self.false.append([self.reuses, kind, guise, wrong])


def run(rounds: int, seed: str, look: Callable[[], States], home: Path) -> Tally:
    chance = random.Random(seed)
    evidence = Evidence(home)
    tally = Tally()
    with open("/proc/sys/kernel/ns_last_pid", "w") as last_pid:
        machine = Machine(last_pid, home)
        while tally.reuses < rounds and not is_time_over():
            guise = chance.choice(machine.guises)
            owner = machine.start(chance.randrange(1_000, 30_000), guise)
            for _ in range(min(ROUNDS_PER_NUMBER, rounds - tally.reuses)):
                fitting = [name for name, kind in evidence.kinds.items() if kind.provider == guise]
                name = chance.choice(fitting or list(evidence.kinds))
                kind = evidence.kinds[name]
                is_seen = bool(fitting) and (kind.has_identity or chance.random() < 0.5)
                if is_seen:
                    kind.write(owner, 0.0)
                    states = look()
                    assert states.get(kind.session_id) == kind.state, f"{name} should be {kind.state}: {explain(kind)}"
                    tally.verified[name] += 1
                stop(owner.pid)
                if not is_seen:
                    kind.write(owner, chance.uniform(*AGES_S))
                guise = chance.choice(machine.guises)
                owner = start_in_another_tick(machine, owner, guise)
                states = look()
                os.kill(owner.pid, 0)  # the stranger was there all the while
                tally.note(name, kind.session_id, guise, states)
                if tally.false:
                    return tally
            stop(owner.pid)
    return tally


def start_in_another_tick(machine: Machine, before: ProcessIdentity, guise: str) -> ProcessIdentity:
    """No machine gets through all its numbers within one tick of 10 ms; we can, and then nothing tells them apart."""
    while True:
        now = machine.start(before.pid, guise)
        if now.start_ticks != before.start_ticks:
            return now
        stop(now.pid)
        time.sleep(0.002)


def survey_here() -> States:
    """What `corral ps` asks, in this very process."""
    survey = take_survey(Selection(states=NOTEWORTHY))
    assert not survey.degraded, survey.degraded
    return {session.session_id: str(session.state) for session in survey.sessions}


def survey_by_command() -> States:
    done = subprocess.run([*CORRAL, "ps", "--json"], capture_output=True, timeout=120, check=True)
    survey = msgspec.json.decode(done.stdout)
    assert not survey["degraded"], survey["degraded"]
    return {row["session_id"]: row["state"] for row in survey["sessions"]}


def wait_for_its_words(pid: int, words: list[str]) -> None:
    """A parent goes on before its child has its command line and environment: until then it looks like nobody."""
    wanted = "\0".join([*words, ""]).encode()
    deadline = time.monotonic() + WAIT_SECONDS
    while Path(f"/proc/{pid}/cmdline").read_bytes() != wanted:
        if time.monotonic() > deadline:
            raise TimeoutError(f"pid {pid} does not become {words}")
        time.sleep(0.001)


def explain(kind: Kind) -> str:
    done = subprocess.run([*CORRAL, "explain", kind.session_id], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def read_identity(pid: int) -> ProcessIdentity:
    stat = read_stat(pid)
    boot_id, pid_ns = read_boot_id(), read_own_pid_namespace()
    assert stat is not None and boot_id is not None and pid_ns is not None
    return ProcessIdentity(boot_id, pid_ns, pid, stat.start_ticks)


def forget_all_but_newest(directory: Path) -> None:
    """Some have a file for each process: of thousands only the newest are kept."""
    for old in sorted(directory.glob("*.json"), key=lambda path: path.stat().st_mtime)[:-RECORDS_KEPT]:
        old.unlink()


def put(path: Path, data: bytes) -> None:
    """Whole, as every writer does it."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_bytes(data)
    beside.replace(path)


def stop(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def main() -> None:
    rounds, seed, way = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    look = survey_by_command if way == "command" else survey_here
    print(json.dumps(vars(run(rounds, seed, look, Path(os.environ["HOME"])))))


if __name__ == "__main__":
    main()
