"""The installer: idempotent, reversible to the byte, and never in another writer's way."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from corral.hooks.command import base_interpreter, hook_command, program_path
from corral.hooks.install import install, uninstall
from corral.hooks.program import bundle
from corral.hooks.settings import events_for
from corral.hooks.status import read_installation, read_status
from corral.model.hook_install import Outcome
from tests.unit.hooks.configs import JSON, JSON_REFUSED, TOML, TOML_REFUSED
from tests.unit.hooks.conftest import target_of

CASES = [("kimi-cli", name, text) for name, text in TOML.items()] + [
    ("qwen-code", name, text) for name, text in JSON.items()
]
REFUSED = [("kimi-code", name, data) for name, data in TOML_REFUSED.items()]
REFUSED += [("qwen-code", name, data) for name, data in JSON_REFUSED.items()]


@pytest.mark.parametrize(("provider", "name", "text"), CASES, ids=lambda value: str(value)[:30])
def test_install_then_uninstall_gives_back_the_very_bytes(make, provider, name, text):
    setting = make(provider, text.encode())
    assert install(setting).outcome is Outcome.INSTALLED
    written = Path(setting.config_path).read_bytes()
    assert written != text.encode()
    assert install(setting).outcome is Outcome.UNCHANGED
    assert Path(setting.config_path).read_bytes() == written
    assert uninstall(setting).outcome is Outcome.REMOVED
    assert Path(setting.config_path).read_bytes() == text.encode()
    assert uninstall(setting).outcome is Outcome.UNCHANGED
    assert list(Path(setting.home).iterdir()) == [Path(setting.config_path)]


@pytest.mark.parametrize(("provider", "name", "data"), REFUSED, ids=lambda value: str(value)[:30])
def test_what_does_not_parse_is_left_alone(make, provider, name, data):
    setting = make(provider, data)
    done = install(setting)
    assert (done.outcome, Path(setting.config_path).read_bytes()) == (Outcome.REFUSED, data)
    assert setting.config_path in done.message


@pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])
def test_a_missing_configuration_is_made_and_taken_away_again(make, provider):
    setting = make(provider, None)
    assert install(setting).outcome is Outcome.INSTALLED
    assert stat.S_IMODE(os.stat(setting.config_path).st_mode) == 0o600
    assert read_status(setting).problems == ()
    assert uninstall(setting).outcome is Outcome.REMOVED
    assert list(Path(setting.home).iterdir()) == []


@pytest.mark.parametrize("provider", ["kimi-cli", "kimi-code", "qwen-code"])
def test_a_configuration_that_was_deleted_is_made_again(make, provider):
    setting = make(provider, None)
    install(setting)
    Path(setting.config_path).unlink()
    assert install(setting).outcome is Outcome.INSTALLED
    assert read_status(setting).works


def test_without_a_home_nothing_is_made(make, tmp_path):
    setting = make("kimi-cli", None)
    os.rmdir(setting.home)
    assert install(setting).outcome is Outcome.REFUSED
    assert not os.path.exists(setting.home)


def test_a_linked_dotfile_stays_a_link_and_its_target_is_written(make, tmp_path):
    setting = make("kimi-cli", None)
    target = tmp_path / "dotfiles" / "kimi.toml"
    target.parent.mkdir()
    target.write_text("a = 1\n")
    target.chmod(0o640)
    os.symlink(target, setting.config_path)
    assert install(setting).outcome is Outcome.INSTALLED
    assert os.path.islink(setting.config_path)
    assert len(tomllib.loads(target.read_text())["hooks"]) == 2
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    uninstall(setting)
    assert (os.path.islink(setting.config_path), target.read_text()) == (True, "a = 1\n")


def test_a_backup_is_kept_privately(make):
    setting = make("kimi-cli", b"secret = 1\n")
    backup = Path(install(setting).backup or "")
    assert backup.read_bytes() == b"secret = 1\n"
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(setting.state_dir).stat().st_mode) == 0o700


def test_a_config_that_the_cli_rewrote_loses_only_our_entries(make):
    setting = make("kimi-cli", b"# mine\na = 1\n")
    install(setting)
    document = tomllib.loads(Path(setting.config_path).read_text())
    import tomlkit

    Path(setting.config_path).write_text(tomlkit.dumps({"theme": "dark", **document}))
    assert install(setting).outcome is Outcome.UNCHANGED
    uninstall(setting)
    left = tomllib.loads(Path(setting.config_path).read_text())
    assert (left.pop("hooks", []), left) == ([], {"theme": "dark", "a": 1})


def test_hooks_that_another_program_dropped_are_noticed_and_put_back(make):
    setting = make("qwen-code", b'{"a": 1}')
    install(setting)
    Path(setting.config_path).write_text('{"a": 2}')
    status = read_status(setting)
    assert not status.installed
    assert status.problems == ("another program has removed our hooks",)
    assert install(setting).outcome is Outcome.INSTALLED
    assert read_status(setting).problems == ()
    uninstall(setting)
    assert Path(setting.config_path).read_text() == '{"a": 2}'


def test_an_entry_of_an_older_corral_is_replaced_not_doubled(make):
    old = hook_command("kimi-cli", "/gone", "/gone/state")
    setting = make("kimi-cli", f'[[hooks]]\nevent = "SessionStart"\ncommand = "{old}"\n'.encode())
    assert "is missing" in " ".join(read_status(setting).problems)
    assert install(setting).outcome is Outcome.INSTALLED
    hooks = tomllib.loads(Path(setting.config_path).read_text())["hooks"]
    assert [hook["command"] for hook in hooks] == [hook_command("kimi-cli", setting.data_dir, setting.state_dir)] * 2


def test_what_kimi_migrate_copied_into_kimi_code_becomes_its_own(make):
    setting = make("kimi-code", None)
    copied = hook_command("kimi-cli", setting.data_dir, setting.state_dir)
    Path(setting.config_path).write_text(f"[[hooks]]\nevent = \"SessionStart\"\ncommand = '''{copied}'''\n")
    install(setting)
    hooks = tomllib.loads(Path(setting.config_path).read_text())["hooks"]
    assert all(" kimi-code " in hook["command"] for hook in hooks)


@pytest.mark.parametrize(
    ("versions", "heartbeat"),
    [
        ([], False),
        (["2.1.0"], True),
        (["2.0.9"], False),
        (["2.10.0"], True),
        (["2.1.0", "1.0.0"], False),
        (["x"], False),
    ],
)
def test_the_heartbeat_is_asked_for_only_where_it_is_known(versions, heartbeat):
    assert ("SessionHeartbeat" in events_for(target_of("kimi-code"), versions)) is heartbeat
    assert events_for(target_of("kimi-cli"), ["9.9.9"]) == ("SessionStart", "SessionEnd")


@pytest.mark.parametrize("make_it", [os.mkfifo, os.mkdir, lambda path: os.symlink("/proc/self/mem", path)])
def test_a_configuration_that_is_no_file_is_told_and_no_command_is_said_to_help(make, make_it):
    setting = make("kimi-code", None)
    make_it(setting.config_path)
    status = read_status(setting)
    assert status.problems and status.problems[0].startswith("the configuration can't be read: ")
    assert "until you fix it" in status.problems[0] and status.remedy is None
    assert install(setting).outcome is Outcome.REFUSED


def test_of_a_configuration_that_does_not_parse_no_command_is_said_to_help(make):
    setting = make("kimi-code", b"a = 1\n")
    install(setting)
    Path(setting.config_path).write_text("broken =\n")
    status = read_status(setting)
    assert "does not parse" in status.problems[0] and status.remedy is None
    Path(setting.config_path).write_text("a = 1\n")
    assert read_status(setting).remedy == "corral hooks install kimi-code"


def test_an_installation_says_since_when_and_whether_it_holds(make):
    setting = make("kimi-cli", b"a = 1\n")
    assert read_installation(setting.state_dir, setting.target, setting.home) is None
    install(setting)
    found = read_installation(setting.state_dir, setting.target, setting.home)
    assert found and found.present and not found.problems
    assert found.config_ctime == pytest.approx(os.stat(setting.config_path).st_ctime)
    assert abs(found.installed_at - found.config_ctime) < 5
    Path(setting.config_path).write_text("broken =\n")
    found = read_installation(setting.state_dir, setting.target, setting.home)
    assert found and not found.present and "does not parse" in found.problems[0]
    os.unlink(setting.config_path)
    found = read_installation(setting.state_dir, setting.target, setting.home)
    assert found and found.problems == ("the configuration is gone",)


def test_an_installation_is_found_through_a_linked_home(make, tmp_path):
    setting = make("kimi-cli", b"a = 1\n")
    install(setting)
    (tmp_path / "link").symlink_to(setting.home)
    assert read_installation(setting.state_dir, setting.target, str(tmp_path / "link")) is not None


def test_a_missing_or_changed_program_is_noticed_and_mended(make):
    setting = make("kimi-cli", b"")
    install(setting)
    program = Path(program_path(setting.data_dir))
    program.unlink()
    assert any("is missing" in problem for problem in read_status(setting).problems)
    install(setting)
    assert read_status(setting).problems == ()
    program.write_bytes(b"garbage")
    assert any("can't be read" in problem for problem in read_status(setting).problems)
    install(setting)
    assert bundle.find_problem(str(program)) is None


def test_hooks_that_are_switched_off_are_a_problem(make):
    setting = make("qwen-code", b'{"disableAllHooks": true}')
    install(setting)
    assert any("disableAllHooks" in problem for problem in read_status(setting).problems)


def test_the_program_is_the_same_to_the_byte_each_time():
    assert bundle.build_program() == bundle.build_program()


def test_the_interpreter_is_outside_the_virtual_environment():
    assert not base_interpreter().startswith(sys.prefix + "/") or sys.prefix == sys.base_prefix
    assert subprocess.run([base_interpreter(), "-I", "-S", "-c", "print(1)"], capture_output=True).stdout == b"1\n"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize("gone", ["interpreter", "program"])
def test_a_vanished_part_stays_silent_and_succeeds(make, monkeypatch, gone, shell):
    setting = make("kimi-cli", b"")
    install(setting)
    command = hook_command("kimi-cli", setting.data_dir, setting.state_dir)
    if gone == "interpreter":
        command = command.replace(base_interpreter(), "/no/such/python")
    else:
        os.unlink(program_path(setting.data_dir))
    run = subprocess.run([shell, "-c", command], input=b"{}", capture_output=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")


def test_a_read_only_home_is_refused_with_the_reason(make):
    setting = make("kimi-cli", b"a = 1\n")
    subprocess.run(["mount", "--bind", setting.home, setting.home], check=True)
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", setting.home], check=True)
        done = install(setting)
        assert done.outcome is Outcome.REFUSED and "ead-only" in done.message
        assert Path(setting.config_path).read_bytes() == b"a = 1\n"
    finally:
        subprocess.run(["umount", setting.home], check=True)


def test_status_reports_as_json(make, monkeypatch, capsys):
    from corral.cli.main import main

    setting = make("kimi-cli", b"a = 1\n")
    monkeypatch.setenv("CORRAL_STATE_DIR", setting.state_dir)
    monkeypatch.setenv("CORRAL_DATA_DIR", setting.data_dir)

    def run(*words: str) -> int:
        return main(["hooks", *words])

    assert run("install", "kimi-cli", "--home", setting.home) == 0
    assert "SessionStart, SessionEnd" in capsys.readouterr().out
    assert run("status", "kimi-cli", "--home", setting.home, "--json") == 0
    shown = json.loads(capsys.readouterr().out)["hooks"][0]
    assert (shown["installed"], shown["problems"], shown["home"]) == (True, [], setting.home)
    assert run("status", "--home", setting.home) == 2
    Path(setting.config_path).write_text("oh no")
    assert run("install", "kimi-cli", "--home", setting.home) == 1
    assert "line 1" in capsys.readouterr().err
    assert run("status", "kimi-cli", "--home", setting.home) == 1
    assert "broken" in capsys.readouterr().out
