"""How our hooks stand in every home: installed, drifted, outdated or never installed."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from corral.hooks.command import find_missing_file, hook_command, program_path
from corral.hooks.edit.config_file import read_snapshot
from corral.hooks.edit.entries import EditRefused, decode_config, describe_fault
from corral.hooks.install import Setting
from corral.hooks.installed import read_installation
from corral.hooks.program import bundle
from corral.hooks.targets import format_of


class Status(Struct, frozen=True, kw_only=True):
    """Our hooks in one home. `problems` is empty when all is well, or when there is nothing of ours."""

    provider: str
    home: str
    config_path: str
    home_exists: bool
    installed: bool
    """All our entries are in the configuration now."""
    installed_at: float | None
    """Epoch seconds; None when corral has no record of it."""
    events: tuple[str, ...]
    problems: tuple[str, ...]
    remedy: str | None = None
    """A command that helps; None when nothing is wrong, or only the person can mend it."""
    works: bool = False
    """An agent that starts now will report."""


def read_status(setting: Setting) -> Status:
    """Looks at one home; runs nothing and changes nothing."""
    installation = read_installation(setting.state_dir, setting.target, setting.home)
    problems = list(installation.problems) if installation else []
    events: tuple[str, ...] = ()
    commands: set[str] = set()
    off: str | None = None
    is_usable = True
    try:
        snapshot = read_snapshot(setting.config_path)
        if snapshot.data is not None:
            edit, text = format_of(setting.target.format, setting.target), decode_config(snapshot.data)
            entries, off = edit.find_entries(text), edit.find_switch_off(text)
            events = tuple(entry.event for entry in entries)
            commands = {entry.command for entry in entries}
    except EditRefused as refusal:
        is_usable = False
        if not installation:
            problems.append(describe_fault(refusal))
    wanted = hook_command(setting.provider, setting.data_dir, setting.state_dir)
    if commands:
        problems += _find_drift(setting, commands, wanted, known=installation is not None)
    installed = installation.present if installation else commands == {wanted}
    if off is not None and commands:
        problems.append(off)
    rejection = installation.rejection if installation else None
    is_mended_by_us = is_usable and any(problem not in (off, rejection) for problem in problems)
    return Status(
        provider=setting.provider,
        home=setting.home,
        config_path=setting.config_path,
        home_exists=Path(setting.home).is_dir(),
        installed=installed,
        installed_at=installation.installed_at if installation else None,
        events=events,
        problems=tuple(dict.fromkeys(problems)),
        remedy=install_command(setting) if is_mended_by_us else None,
        works=installation.works if installation else installed and not problems,
    )


def install_command(setting: Setting) -> str:
    """What one types to have our hooks there."""
    words = ["corral", "hooks", "install", setting.provider]
    return shlex.join([*words, "--home", setting.home] if setting.is_chosen else words)


def _find_drift(setting: Setting, commands: set[str], wanted: str, *, known: bool) -> list[str]:
    problems: list[str] = []
    if not known:
        problems.append("the hooks are there, but corral has no record of installing them")
    if commands != {wanted}:
        problems.append("the command is not the one that this corral would install")
    for command in sorted(commands):
        if missing := find_missing_file(command):
            problems.append(f"{missing} is missing")
    program = program_path(setting.data_dir)
    problem = bundle.find_problem(program)
    if problem is not None and f"{program} {problem}" not in problems:
        problems.append(f"{program} {problem}")
    return problems
