"""Since when hooks report without a gap: told by what is on disk, whether anybody watched or not."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec
import pytest

from corral.hooks import bundle
from corral.hooks.command import program_path
from corral.hooks.hook_program import ProgramRecord, find_unbroken_since
from corral.hooks.install import Outcome, Setting, install, uninstall
from corral.hooks.installed import Installation, read_installation
from corral.hooks.status import read_status


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


@pytest.mark.parametrize("entry", ['timeout = "10"', "timeout = 10.0", "flavour = 1", "matcher = 'x'"])
def test_what_kimi_cli_accepts_is_no_fault(make, entry):
    setting = make("kimi-cli", f'[[hooks]]\nevent = "Stop"\ncommand = "true"\n{entry}\n'.encode())
    assert install(setting).outcome is Outcome.INSTALLED
    assert read_status(setting).works
