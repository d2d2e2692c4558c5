"""Process identity per platform: Linux for real, the others by injecting what their kernel would answer."""

import ctypes
import os
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from corral.sidecar import processes
from corral.sidecar.processes import (
    LinuxPlatform,
    Platform,
    Stat,
    find_platform,
    own_identity,
    parse_stat,
    read_booted_at,
    read_identity,
)
from corral.sidecar.processes_elsewhere import DarwinPlatform, WindowsPlatform


def test_fields_are_counted_after_the_last_parenthesis():
    line = b"41 (a) S 1 (b) c) Z 1 41 41 0 -1 4194560 " + b" ".join(b"%d" % n for n in range(10, 30)) + b"\n"
    assert parse_stat(line) == Stat("Z", 4194560, 22)


@pytest.mark.parametrize("line", [b"", b"1 (x", b"1 (x) S 1 2", b"1 (x) S " + b"x " * 30, b") " + b"\xff " * 30])
def test_bytes_that_are_no_stat_line_are_none(line: bytes):
    assert parse_stat(line) is None


def test_our_own_identity_is_what_proc_says():
    own = own_identity()
    stat = parse_stat(Path("/proc/self/stat").read_bytes())
    assert own is not None and stat is not None
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert own == (boot_id, os.stat("/proc/self/ns/pid").st_ino, os.getpid(), stat.start_ticks)


def test_a_pause_between_two_clocks_moves_no_start(monkeypatch: pytest.MonkeyPatch):
    pauses = iter([0.5, 0.3])
    real = time.time

    def read_after_a_pause() -> float:
        time.sleep(next(pauses, 0.0))
        return real()

    true = read_booted_at()
    monkeypatch.setattr(time, "time", read_after_a_pause)
    assert abs(read_booted_at() - true) < 0.1
    assert next(pauses, None) is None


def test_a_child_has_an_identity_until_it_is_gone():
    child = subprocess.Popen(["sleep", "60"])
    first = read_identity(child.pid)
    assert first is not None and first == read_identity(child.pid) and first != own_identity()
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert LinuxPlatform().look(child.pid).state == processes.ZOMBIE
    assert read_identity(child.pid) is None
    child.wait()
    assert LinuxPlatform().look(child.pid).state == processes.GONE


HEADLESS = """
import ctypes, os, threading
threading.Thread(target=input).start()
print(flush=True)
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)  # SYS_exit: this thread only
"""


def test_a_process_without_its_first_thread_is_no_zombie():
    child = subprocess.Popen([sys.executable, "-c", HEADLESS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    stat = None
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        stat = parse_stat(Path(f"/proc/{child.pid}/stat").read_bytes())
        if stat is not None and stat.state == "Z":
            break
        time.sleep(0.01)
    assert stat is not None and stat.state == "Z"
    assert LinuxPlatform().look(child.pid).state == processes.RUNNING
    child.kill()
    child.wait()


def test_a_thread_is_no_process():
    started, stop = threading.Event(), threading.Event()
    ids: list[int] = []

    def wait() -> None:
        ids.append(threading.get_native_id())
        started.set()
        stop.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    started.wait()
    assert LinuxPlatform().look(ids[0]).state == processes.THREAD
    stop.set()
    thread.join()


@pytest.mark.parametrize("pid", [0, -1, 2**31, 2**64, 10**19])
def test_numbers_that_are_no_pids_are_nobody(pid: int):
    assert read_identity(pid) is None


def test_every_process_of_this_machine_can_be_looked_at():
    platform = LinuxPlatform()
    looks = [platform.look(int(name)) for name in os.listdir("/proc") if name.isdigit()]
    assert len(looks) > 3
    assert all(look.identity or look.state in (processes.GONE, processes.ZOMBIE) for look in looks)


def test_without_proc_nothing_is_claimed_about_a_running_process(tmp_path: Path):
    platform = LinuxPlatform(str(tmp_path))
    assert platform.look(os.getpid()) == (processes.HIDDEN, None, None, None)
    assert own_identity(platform) is None


def test_a_kernel_thread_is_told_apart(tmp_path: Path):
    (tmp_path / "2").mkdir()
    fields = " ".join(["S", "0", "0", "0", "0", "-1", str(0x00200000), *["0"] * 12, "5", "0"])
    (tmp_path / "2" / "stat").write_text(f"2 (kthreadd) {fields}\n")
    (tmp_path / "2" / "status").write_text("Name:\tkthreadd\nTgid:\t2\nNSpid:\t2\n")
    assert LinuxPlatform(str(tmp_path)).look(2).state == processes.KERNEL


class FakeDarwin:
    """Answers as XNU does: bytes into the caller's buffer, and a size."""

    def __init__(self, kinfo: bytes = b"", failing: bool = False):
        self.kinfo, self.failing = kinfo, failing
        self.asked: list[int] = []

    def sysctl(self, mib: object, count: int, buffer: object, size: object, *_: object) -> int:
        self.asked = list(mib)  # type: ignore[call-overload]
        if self.failing:
            return -1
        buffer[: len(self.kinfo)] = self.kinfo  # type: ignore[index]
        size._obj.value = len(self.kinfo)  # type: ignore[attr-defined]
        return 0

    def sysctlbyname(self, name: bytes, buffer: object, size: object, *_: object) -> int:
        if name == b"kern.bootsessionuuid":
            buffer.value = b"1B2C-BOOT"  # type: ignore[attr-defined]
            return 0
        if name == b"kern.boottime":
            struct.pack_into("=qi", buffer, 0, 1794770000, 500000)  # type: ignore[arg-type]
            return 0
        return -1


def kinfo(pid: int, seconds: int, micros: int, state: int = 2) -> bytes:
    data = bytearray(648)
    struct.pack_into("=qi", data, 0, seconds, micros)
    data[36] = state
    struct.pack_into("=i", data, 40, pid)
    return bytes(data)


def test_macos_identity_is_the_start_in_microseconds():
    libc = FakeDarwin(kinfo(4711, 1794770442, 123456))
    platform = DarwinPlatform(libc)
    look = platform.look(4711)
    assert libc.asked == [1, 14, 1, 4711]
    assert look.state == processes.RUNNING
    assert look.identity == ("1B2C-BOOT", 0, 4711, 1794770442123456)
    assert look.started_at == pytest.approx(1794770442.123456)
    assert platform.booted_at() == 1794770000.5


def test_macos_zombies_strangers_and_unknown_layouts():
    free = subprocess.Popen(["true"])
    free.wait()
    assert DarwinPlatform(FakeDarwin(kinfo(7, 1, 2, state=5))).look(7).state == processes.ZOMBIE
    assert DarwinPlatform(FakeDarwin()).look(free.pid).state == processes.GONE
    assert DarwinPlatform(FakeDarwin()).look(os.getpid()).state == processes.HIDDEN
    assert DarwinPlatform(FakeDarwin(failing=True)).look(os.getpid()).state == processes.HIDDEN
    assert DarwinPlatform(FakeDarwin(kinfo(8, 1, 2))).look(7).state == processes.HIDDEN
    assert DarwinPlatform(FakeDarwin(kinfo(7, 1, 2)[:492])).look(7).state == processes.HIDDEN


class FakeWindows:
    """Answers as kernel32 does, through the pointers it is given."""

    def __init__(
        self, handle: int = 64, pid: int = 4712, exit_code: int = 259, created: int = 0, times_ok: bool = True
    ):
        self.handle, self.pid, self.exit_code, self.created, self.times_ok = (
            handle,
            pid,
            exit_code,
            created,
            times_ok,
        )
        self.closed: list[int] = []

    def OpenProcess(self, access: int, inherit: bool, pid: int) -> int:
        assert access == 0x1000
        return self.handle

    def GetProcessId(self, handle: int) -> int:
        return self.pid

    def GetExitCodeProcess(self, handle: int, code: object) -> int:
        code._obj.value = self.exit_code  # type: ignore[attr-defined]
        return 1

    def GetProcessTimes(self, handle: int, created: object, *_: object) -> int:
        created._obj.value = self.created  # type: ignore[attr-defined]
        return int(self.times_ok)

    def CloseHandle(self, handle: int) -> int:
        self.closed.append(handle)
        return 1


def test_windows_identity_is_the_creation_time():
    kernel32 = FakeWindows(created=134_392_440_421_234_567)
    look = WindowsPlatform(kernel32, lambda: 0).look(4712)
    assert look.identity == ("", 0, 4712, 134_392_440_421_234_567)
    assert look.started_at == pytest.approx((134_392_440_421_234_567 - 116_444_736_000_000_000) / 1e7)
    assert kernel32.closed == [64]


@pytest.mark.parametrize(
    ("kernel32", "error", "state"),
    [
        (FakeWindows(handle=0), 87, processes.GONE),
        (FakeWindows(handle=0), 5, processes.HIDDEN),
        (FakeWindows(exit_code=0), 0, processes.ZOMBIE),
        (FakeWindows(pid=4708), 0, processes.GONE),
        (FakeWindows(times_ok=False), 0, processes.HIDDEN),
    ],
    ids=["free", "denied", "ended", "rounded pid", "no times"],
)
def test_windows_answers(kernel32: FakeWindows, error: int, state: str):
    assert WindowsPlatform(kernel32, lambda: error).look(4712).state == state


def test_each_name_finds_its_platform(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: FakeDarwin())
    assert isinstance(find_platform("linux"), LinuxPlatform)
    assert isinstance(find_platform("darwin"), DarwinPlatform)
    assert isinstance(find_platform("win32"), WindowsPlatform)
    assert isinstance(find_platform("freebsd14"), Platform)
    assert isinstance(find_platform(), LinuxPlatform) == (sys.platform == "linux")


def test_an_unknown_platform_can_only_tell_that_a_pid_is_free():
    free = subprocess.Popen(["true"])
    free.wait()
    platform = Platform()
    assert platform.look(free.pid).state == processes.GONE
    assert platform.look(os.getpid()).state == processes.HIDDEN
    assert own_identity(platform) is None and platform.boot_id() == "" and platform.booted_at() is None
