"""Writing, reading and clearing, in one process and against records of others."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from corral import sidecar
from corral.sidecar import RuntimeRecord, session_file
from corral.sidecar.atomic import Directory
from corral.sidecar.processes import Platform
from corral.sidecar.session_file import could_be_another
from tests.unit.sidecar.written import code, put, write


def test_what_is_written_is_read_back_live_and_cleared(tmp_path: Path):
    record = sidecar.write(
        tmp_path, session_id="s1", work_dir="/w", cli="kimi-cli", version="1.51.0", provider="kimi-cli"
    )
    path = tmp_path / "runtime.json"
    assert sidecar.read(path) == record and record.identity == sidecar.own_identity()
    fields = json.loads(path.read_bytes())
    assert fields["kimi_cli_version"] == "1.51.0" and fields["pid"] == os.getpid() and fields["provider"] == "kimi-cli"
    verdict = sidecar.check(path)
    assert isinstance(verdict, sidecar.Verdict) and (verdict.liveness, verdict.rule) == ("live", "identity")
    sidecar.clear(path)
    assert os.listdir(tmp_path) == []
    sidecar.clear(path)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"session_id": "../x"}, "invalid:session_id"),
        ({"session_id": ""}, "invalid:session_id"),
        ({"work_dir": "a\0b"}, "invalid:work_dir"),
        ({"work_dir": "x" * 40000}, "invalid:work_dir"),
        ({"cli": "Kimi CLI"}, "invalid:cli"),
        ({"cli": "schema"}, "invalid:cli"),
        ({"provider": "a/b"}, "invalid:provider"),
        ({"process": 4194304}, "no-such-process"),
    ],
)
def test_nothing_is_written_that_a_reader_would_refuse(tmp_path: Path, change: dict[str, object], expected: str):
    arguments = {"session_id": "s", "work_dir": "/w", "cli": "kimi-cli", "version": "1"} | change
    assert code(sidecar.write(tmp_path, **arguments, best_effort=True)) == expected
    with pytest.raises(sidecar.SidecarError, match=expected.replace(":", ".")):
        sidecar.write(tmp_path, **arguments)
    assert os.listdir(tmp_path) == []


def test_a_work_dir_that_is_no_text_is_written_readably(tmp_path: Path):
    work_dir = os.fsdecode(b"/w/\xff\xfe")
    record = sidecar.write(tmp_path, session_id="s", work_dir=work_dir, cli="x", version="1")
    assert record.work_dir == "/w/\ufffd\ufffd" and sidecar.read(tmp_path / "runtime.json") == record


def test_a_missing_directory_is_a_problem_returned_not_raised(tmp_path: Path):
    assert code(write(tmp_path / "nowhere")) == "io:ENOENT"
    assert code(sidecar.read(tmp_path / "nowhere" / "runtime.json")) == "io:ENOENT"
    assert sidecar.clear(tmp_path / "nowhere" / "runtime.json", best_effort=True) is None
    assert code(write(Path("a\0b"))) == "invalid:path"
    assert code(sidecar.read("a\0b")) == "invalid:path"
    assert code(sidecar.clear("a\0b/c", best_effort=True)) == "invalid:path"


def make(kind: str, path: Path) -> None:
    match kind:
        case "fifo":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "link":
            (path.parent / "target").write_text("precious")
            path.symlink_to("target")
        case "dangling link":
            path.symlink_to("nowhere")
        case "link to a device":
            path.symlink_to("/dev/full")
        case "device":
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 7))
        case _:
            with socket.socket(socket.AF_UNIX) as server:
                server.bind(str(path))


KINDS = ["fifo", "directory", "link", "dangling link", "link to a device", "device", "socket"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_regular_file_is_refused_at_once_and_left_alone(tmp_path: Path, kind: str):
    path = tmp_path / "runtime.json"
    if kind == "device" and os.geteuid() != 0:
        pytest.fail("making a device node needs root: run these tests as root")
    make(kind, path)
    before = path.lstat()
    assert code(sidecar.read(path)) == "not-a-regular-file"
    assert code(write(tmp_path)) == "not-a-regular-file"
    assert code(session_file.take_away(str(path), session_file.Holder(os.getpid(), None))) == "not-a-regular-file"
    assert path.lstat() == before
    assert not (tmp_path / "target").exists() or (tmp_path / "target").read_text() == "precious"


def test_a_file_that_may_not_be_read_is_named_by_its_error(tmp_path: Path):
    put(tmp_path).chmod(0)
    tmp_path.chmod(0o755)
    if os.geteuid() != 0:
        pytest.fail("changing the user needs root: run these tests as root")
    with Directory(str(tmp_path)) as directory:
        os.seteuid(65534)
        try:
            found = session_file.read_file("runtime.json", directory.fd)
        finally:
            os.seteuid(0)
    assert code(found.record) == "io:EACCES"


def test_a_malformed_file_gets_a_second_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = put(tmp_path)
    whole = path.read_bytes()
    path.write_bytes(whole[:20])
    real = session_file._read_once

    def read_before_the_writer_is_done(*arguments: object) -> session_file.SidecarFile:
        found = real(*arguments)  # type: ignore[arg-type]
        path.write_bytes(whole)
        return found

    monkeypatch.setattr(session_file, "_read_once", read_before_the_writer_is_done)
    assert isinstance(sidecar.read(path), RuntimeRecord)


def test_a_malformed_file_is_malformed_after_one_retry_and_still_there(tmp_path: Path):
    path = tmp_path / "runtime.json"
    path.write_bytes(b'{"schema_version": 1, ')
    began = time.monotonic()
    assert code(sidecar.read(path)) == "malformed"
    assert time.monotonic() - began >= 0.05
    assert path.read_bytes() == b'{"schema_version": 1, '


def test_a_torn_file_is_replaced_by_the_writer(tmp_path: Path):
    (tmp_path / "runtime.json").write_bytes(b"")
    assert isinstance(write(tmp_path), RuntimeRecord)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"schema_version": 2}, "unsupported"), ({"pid": 0}, "invalid:pid"), ({"x": "y" * 70000}, "too-large")],
)
def test_a_file_of_somebody_else_is_neither_replaced_nor_cleared(
    tmp_path: Path, fields: dict[str, object], expected: str
):
    path = put(tmp_path, **fields)
    before = path.read_bytes()
    assert code(write(tmp_path)) == expected
    assert code(sidecar.clear(path, best_effort=True)) == expected
    assert path.read_bytes() == before


def test_the_file_of_a_living_other_is_neither_replaced_nor_cleared(tmp_path: Path, other: subprocess.Popen[bytes]):
    sidecar.write(tmp_path, session_id="s", work_dir="/w", cli="x", version="1", process=other.pid)
    path = tmp_path / "runtime.json"
    before = path.read_bytes()
    assert code(write(tmp_path)) == "held:live"
    assert code(sidecar.clear(path, best_effort=True)) == "not-ours"
    with pytest.raises(sidecar.SidecarError):
        sidecar.clear(path)
    assert path.read_bytes() == before
    other.kill()
    other.wait()
    assert code(sidecar.clear(path, best_effort=True)) == "not-ours", "dead, but still not this process's to clear"
    assert isinstance(write(tmp_path), RuntimeRecord)


def test_a_v1_record_of_a_living_other_is_protected_too(tmp_path: Path, other: subprocess.Popen[bytes]):
    put(tmp_path, pid=other.pid, started_at=time.time() + 0.5)
    assert code(write(tmp_path)) == "held:live"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"hostname": "another-host"}, "held:remote-host"),
        ({"pid": os.getppid(), "started_at": time.time() + 3600}, "held:unknown"),
    ],
    ids=["other host", "future"],
)
def test_what_can_not_be_checked_counts_as_alive(tmp_path: Path, fields: dict[str, object], expected: str):
    put(tmp_path, **fields)
    assert code(write(tmp_path)) == expected


def test_a_dead_process_can_be_cleared_by_its_number(tmp_path: Path, other: subprocess.Popen[bytes]):
    sidecar.write(tmp_path, session_id="s", work_dir="/w", cli="x", version="1", process=other.pid)
    path = tmp_path / "runtime.json"
    assert code(sidecar.clear(path, process=os.getppid(), best_effort=True)) == "not-ours"
    other.kill()
    other.wait()
    assert sidecar.clear(path, process=other.pid, best_effort=True) is None
    assert not path.exists()


def test_a_file_that_changes_under_the_hand_is_not_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    write(tmp_path)
    path = tmp_path / "runtime.json"
    stranger = path.read_bytes().replace(b'"s"', b'"t"')
    real = session_file._judge

    def judge_slowly(*arguments: object) -> sidecar.Verdict:
        verdict = real(*arguments)  # type: ignore[arg-type]
        path.unlink()
        path.write_bytes(stranger)
        return verdict

    monkeypatch.setattr(session_file, "_judge", judge_slowly)
    assert code(sidecar.clear(path, best_effort=True)) == "changed"
    assert path.read_bytes() == stranger


def test_a_stuck_writer_delays_others_for_a_moment_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    real = time.sleep
    with Directory(str(tmp_path)) as directory:
        assert directory.lock()
        monkeypatch.setattr(time, "sleep", lambda seconds: (waits.append(seconds), real(seconds)))
        assert code(write(tmp_path)) == "busy"
        monkeypatch.undo()
        assert 0 < sum(waits) < 1
    assert isinstance(write(tmp_path), RuntimeRecord)


def test_on_an_unknown_platform_v1_is_written_and_cleared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("corral.sidecar.processes.find_platform", lambda *_: Platform())
    record = write(tmp_path)
    assert isinstance(record, RuntimeRecord) and record.identity is None and record.boot_id is None
    assert isinstance(write(tmp_path), RuntimeRecord)
    assert sidecar.clear(tmp_path, best_effort=True) is None
    assert os.listdir(tmp_path) == []


def test_a_generic_hostname_on_a_network_filesystem_may_be_another_machine(tmp_path: Path):
    device = tmp_path.stat().st_dev
    mounts = tmp_path / "mountinfo"
    for kind, expected in {"nfs4": True, "fuse.sshfs": True, "ext4": False}.items():
        mounts.write_text(f"1 0 {os.major(device)}:{os.minor(device)} / / rw - {kind} server rw\n")
        assert could_be_another("localhost", str(tmp_path), str(mounts)) is expected
        assert could_be_another("mac.local", str(tmp_path), str(mounts)) is expected
        assert not could_be_another("build-7.example.org", str(tmp_path), str(mounts))
    assert not could_be_another("localhost", str(tmp_path), str(tmp_path / "none"))


HEAVY = {
    "dataclasses",
    "inspect",
    "asyncio",
    "pathlib",
    "subprocess",
    "threading",
    "ctypes",
    "socket",
    "msgspec",
}


def test_importing_the_sidecar_is_light_and_needs_the_standard_library_only():
    script = (
        "import sys; before = set(sys.modules); sys.path.insert(0, sys.argv[1]); import corral.sidecar;"
        "print(*sorted(set(sys.modules) - before))"
    )
    source = str(Path(sidecar.__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", script, source], capture_output=True, text=True, check=True
    )
    loaded = set(done.stdout.split())
    assert not loaded & HEAVY
    ours = {name for name in loaded if name.startswith("corral")}
    assert all(name in ("corral", "corral.version") or name.startswith("corral.sidecar") for name in ours)
    assert {name.split(".")[0] for name in loaded - ours} <= sys.stdlib_module_names


def test_a_persons_word_removes_what_cannot_be_looked_at_and_nothing_that_another_process_holds(tmp_path: Path):
    write(tmp_path)
    path = tmp_path / "runtime.json"
    ours = path.read_bytes()
    assert code(sidecar.clear(path, process=os.getppid(), best_effort=True, unverified=True)) == "not-ours"
    path.write_bytes(ours.replace(os.uname().nodename.encode(), b"another-host").replace(b'"boot_id"', b'"boot"'))
    assert code(sidecar.clear(path, process=os.getpid(), best_effort=True)) == "not-ours"
    assert sidecar.clear(path, process=os.getpid(), best_effort=True, unverified=True) is None
    assert not path.exists()
