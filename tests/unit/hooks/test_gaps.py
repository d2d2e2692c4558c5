"""Since when hooks report without a gap: told by what is on disk, whether anybody watched or not."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import msgspec
import pytest

from corral.hooks import command
from corral.hooks import command as hook_program
from corral.hooks.command import ProgramRecord, base_interpreter, find_unbroken_since, program_path
from corral.hooks.install import install, uninstall
from corral.hooks.program import bundle
from corral.hooks.settings import Setting
from corral.hooks.status import Installation, read_installation, read_status, record_path
from corral.model.hook_install import Outcome


def look(setting: Setting) -> Installation:
    found = read_installation(setting.state_dir, setting.target, setting.home)
    assert found is not None
    return found


def put_older_program(setting: Setting) -> None:
    """As an older version of corral left it, and noted it."""
    path = Path(program_path(setting.data_dir))
    older = path.with_name("older")
    older.write_bytes(path.read_bytes().replace(b"# ", b"#  ", 1))
    older.rename(path)
    record = Path(setting.state_dir, "hooks", "program.json")
    known = msgspec.json.decode(record.read_bytes(), type=ProgramRecord)
    status = os.stat(path)
    known = msgspec.structs.replace(known, inode=status.st_ino, changed_ns=status.st_ctime_ns)
    record.write_bytes(msgspec.json.encode(known))
    assert bundle.find_problem(str(path)) is not None


def test_installing_again_is_no_gap(make):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    assert install(setting).outcome is Outcome.UNCHANGED
    assert look(setting).unbroken_since == since and look(setting).works


def test_an_upgrade_of_the_program_is_no_gap(make):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    put_older_program(setting)
    assert look(setting).unbroken_since == since
    install(setting)
    assert look(setting).unbroken_since == since
    assert bundle.find_problem(program_path(setting.data_dir)) is None


def test_a_rewrite_that_keeps_our_entries_is_no_gap(make):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    config = Path(setting.config_path)
    config.write_bytes(b"b = 2\n" + config.read_bytes())
    assert look(setting).unbroken_since == since and look(setting).works


def test_a_program_that_was_away_leaves_a_gap_until_it_is_back(make):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    program = Path(program_path(setting.data_dir))
    program.rename(program.with_name("kept"))
    assert not look(setting).works
    time.sleep(0.02)
    program.with_name("kept").rename(program)
    assert look(setting).works and look(setting).unbroken_since > since
    install(setting)  # it notes the file that is there now
    assert look(setting).unbroken_since > since


def test_a_program_that_nobody_has_on_record_is_good_from_its_own_time_on(make, tmp_path):
    program = tmp_path / "corral-hook.py"
    assert find_unbroken_since(str(tmp_path / "state"), str(program)) is None
    program.write_text("x")
    assert find_unbroken_since(str(tmp_path / "state"), str(program)) == os.stat(program).st_ctime


@pytest.mark.parametrize("how", ["by another program", "by an uninstall"])
def test_entries_that_had_to_be_put_back_leave_a_gap_until_then(make, how):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    if how == "by an uninstall":
        uninstall(setting)
    else:
        Path(setting.config_path).write_bytes(b"a = 1\n")
        assert not look(setting).works
    put_back_at = time.time()
    install(setting)
    assert look(setting).unbroken_since >= put_back_at


REJECTED = {
    "unknown field": 'event = "Stop"\ncommand = "true"\nflavour = 1',
    "timeout 900": 'event = "Stop"\ncommand = "true"\ntimeout = 900',
    "timeout 0": 'event = "Stop"\ncommand = "true"\ntimeout = 0',
    "timeout 1.5": 'event = "Stop"\ncommand = "true"\ntimeout = 1.5',
    "timeout 'ten'": 'event = "Stop"\ncommand = "true"\ntimeout = "ten"',
    "unknown event": 'event = "Lunch"\ncommand = "true"',
    "no event": 'command = "true"',
    "no command": 'event = "Stop"',
    "matcher": 'event = "Stop"\ncommand = "true"\nmatcher = 3',
}


@pytest.mark.parametrize("fault", REJECTED)
def test_one_entry_that_kimi_code_rejects_breaks_all(make, fault):
    setting = make("kimi-code", f"[[hooks]]\n{REJECTED[fault]}\n".encode())
    done = install(setting)
    assert (done.outcome, "entry 1" in done.message) == (Outcome.BROKEN, True)
    assert install(setting).outcome is Outcome.BROKEN
    status = read_status(setting)
    assert status.installed and not status.works
    assert any(f"kimi-code rejects hooks entry 1 ({fault}" in one and "none runs" in one for one in status.problems)
    assert status.remedy is None  # only the person can mend it


@pytest.mark.parametrize("number", [2**53, -(2**53)])
def test_a_number_that_kimi_code_can_t_hold_breaks_all_hooks(make, number):
    """Wherever it stands; its reader of TOML gives up (2.1.0, seen 2026-11)."""
    setting = make("kimi-code", f"[a]\nb = [{{ c = {number} }}]\n".encode())
    done = install(setting)
    assert (done.outcome, str(number) in done.message) == (Outcome.BROKEN, True)
    assert not look(setting).works
    for text in (f"b = {abs(number) - 1}", f"b = {float(number)}"):
        Path(setting.config_path).write_text(f"{text}\n")
        install(setting)
        assert look(setting).works
    assert install(make("kimi-cli", f"b = {number}\n".encode())).outcome is Outcome.INSTALLED


@pytest.mark.parametrize("entry", ['timeout = "10"', "timeout = 10.0", "flavour = 1", "matcher = 'x'"])
def test_what_kimi_cli_accepts_is_no_fault(make, entry):
    setting = make("kimi-cli", f'[[hooks]]\nevent = "Stop"\ncommand = "true"\n{entry}\n'.encode())
    assert install(setting).outcome is Outcome.INSTALLED
    assert read_status(setting).works


def replace_program(setting: Setting, how: str) -> None:
    path = Path(program_path(setting.data_dir))
    other = path.with_name("other")
    match how:
        case "emptied":
            path.write_bytes(b"")
        case "another script":
            other.write_bytes(b"print('hello')\n")
            other.rename(path)
        case "one byte changed":
            data = bytearray(path.read_bytes())
            data[len(data) // 2] ^= 1
            path.write_bytes(data)
        case "a link to an old file":
            path.unlink()
            path.symlink_to(path.with_name("old"))
        case _:
            path.unlink()
            path.mkdir()


@pytest.mark.parametrize(
    "how", ["emptied", "another script", "one byte changed", "a link to an old file", "a directory"]
)
def test_a_file_that_is_not_the_program_reports_nothing(make, how):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    Path(program_path(setting.data_dir)).with_name("old").write_bytes(b"print('hello')\n")
    replace_program(setting, how)
    assert not look(setting).works
    assert not read_status(setting).works
    if how != "a directory":
        install(setting)
        assert look(setting).works and read_status(setting).works


def test_a_program_that_came_back_by_a_link_leaves_a_gap_until_then(make):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    program = Path(program_path(setting.data_dir))
    copy = program.with_name("copy")
    copy.write_bytes(program.read_bytes())  # older than the link to it
    time.sleep(0.02)
    before = time.time()
    time.sleep(0.02)
    program.unlink()
    program.symlink_to(copy)
    assert look(setting).works and look(setting).unbroken_since > before


def test_a_survey_while_the_program_is_replaced_finds_no_gap(make, monkeypatch):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    put_older_program(setting)
    seen: list[Installation] = []
    stop_at = Path(setting.state_dir, "hooks", "program.json")
    real = hook_program.write_private

    def write(path: Path, data: bytes, *more: object) -> None:
        if path == stop_at and bundle.find_problem(program_path(setting.data_dir)) is None:
            seen.append(look(setting))  # the new file is there, and its record is not
        real(path, data, *more)

    monkeypatch.setattr(hook_program, "write_private", write)
    install(setting)
    assert [one.unbroken_since for one in seen] == [since]
    assert look(setting).unbroken_since == since


def use_interpreter(setting: Setting, interpreter: Path) -> None:
    """As if corral ran by this Python when the hooks were installed."""
    config, record = Path(setting.config_path), record_path(setting.state_dir, setting.provider, setting.home)
    for path in (config, record):
        path.write_text(path.read_text().replace(base_interpreter(), str(interpreter)))


def test_an_interpreter_that_was_away_leaves_a_gap_until_it_is_back(make, tmp_path):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    interpreter = tmp_path / "python3"
    interpreter.symlink_to(sys.executable)
    use_interpreter(setting, interpreter)
    assert look(setting).works
    interpreter.unlink()
    assert not look(setting).works
    time.sleep(0.02)
    before = time.time()
    time.sleep(0.02)
    interpreter.symlink_to(sys.executable)
    assert look(setting).works and look(setting).unbroken_since > before


def test_an_upgrade_that_brings_another_python_is_no_gap(make, tmp_path, monkeypatch):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    since = look(setting).unbroken_since
    time.sleep(0.02)
    interpreter = tmp_path / "python3"
    interpreter.symlink_to(sys.executable)
    monkeypatch.setattr(command, "base_interpreter", lambda: str(interpreter))
    assert install(setting).outcome is Outcome.INSTALLED
    assert look(setting).works and look(setting).unbroken_since == since
    # What is true of the old one is not forgotten with it.
    time.sleep(0.02)
    interpreter.rename(tmp_path / "kept")
    (tmp_path / "kept").rename(interpreter)
    monkeypatch.undo()
    assert install(setting).outcome is Outcome.INSTALLED
    assert look(setting).unbroken_since > since


def test_a_process_has_read_what_a_link_led_to_when_it_began(make, tmp_path):
    """A link that leads to another file since is a change, however old that file is."""
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    config = Path(setting.config_path)
    hooked = config.with_name("hooked.toml")
    config.rename(hooked)
    time.sleep(0.02)
    before = time.time()
    time.sleep(0.02)
    between = config.with_name("between.toml")
    between.symlink_to(hooked.name)
    config.symlink_to(between)
    found = look(setting)
    assert found.works and found.config_ctime is not None and found.config_ctime > before


@pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])
def test_an_entry_of_ours_that_was_given_a_matcher_does_not_report_all(make, provider):
    setting = make(provider, b"{}\n" if provider == "qwen-code" else b"a = 1\n")
    install(setting)
    config = Path(setting.config_path)
    text = config.read_text()
    if provider == "qwen-code":
        narrowed = text.replace('"hooks": [\n', '"matcher": "startup",\n        "hooks": [\n', 1)
    else:
        narrowed = text.replace('event = "SessionStart"\n', 'event = "SessionStart"\nmatcher = "startup"\n')
    assert narrowed != text
    config.write_text(narrowed)
    assert not look(setting).works
    status = read_status(setting)
    assert not status.works and any("matcher" in problem for problem in status.problems) and status.remedy
    put_back_at = time.time()
    assert install(setting).outcome is Outcome.INSTALLED
    assert look(setting).works and look(setting).unbroken_since >= put_back_at
    assert "startup" not in config.read_text() or provider == "qwen-code"


def test_a_matcher_that_matches_all_is_none(make):
    """kimi-cli 1.51 writes it when it rewrites its configuration (seen 2026-11)."""
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    config = Path(setting.config_path)
    config.write_text(config.read_text().replace("timeout = 5", 'matcher = ""\ntimeout = 5'))
    assert look(setting).works and install(setting).outcome is Outcome.UNCHANGED


def test_hooks_that_report_to_another_place_are_not_heard(make, tmp_path):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    moved = tmp_path / "moved"
    Path(setting.state_dir).rename(moved)
    setting = msgspec.structs.replace(setting, state_dir=str(moved))
    assert not look(setting).works
    install(setting)
    assert look(setting).works
