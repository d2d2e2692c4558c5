"""Where Qwen Code keeps its data: its home, its runtime directory, and how it names projects and sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from msgspec import Struct, field

from corral.model.key import Home
from corral.providers.contract import Environment
from corral.providers.kit.homes import HomePlace
from corral.providers.kit.settings_files import expand_path, find_in_env_files, read_commented_json
from corral.providers.qwen_code import reporter

NAME = reporter.name
HOME = HomePlace(NAME, *reporter.HOME)
HOME_VARIABLE = HOME.variable
RUNTIME_VARIABLE = "QWEN_RUNTIME_DIR"
RUNTIME = "runtime"
"""The place that has `projects/`, where it is not the home itself."""

# qwen 0.24.4 accepts these as names of transcripts (read in its bundle, 2026-11). It writes lower-case UUIDs.
_SESSION_ID = re.compile(r"(?!-)[0-9a-fA-F-]{32,36}\Z")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9]")
_ABSOLUTE = re.compile(r"/|~[/\\]|~\Z")
_WORKTREES = "/.qwen/worktrees/"


class _Advanced(Struct):
    runtimeOutputDir: str | None = None


class _Settings(Struct):
    advanced: _Advanced = field(default_factory=_Advanced)


def list_homes(env: Environment) -> tuple[Home, ...]:
    """The home in force, then the one without variables, then `~/.qwen`, then those of corral's config.

    Two paths that lead to the same directory are one home. The second and third are left out where they don't exist.
    """
    fallback, why_fallback = find_home({}, env.home_dir)
    usual = os.path.join(env.home_dir, HOME.directory)
    candidates = [(*find_home(env.variables, env.home_dir), env.variables)]
    candidates += [
        (path, why, {}) for path, why in ((fallback, why_fallback), (usual, "default")) if os.path.isdir(path)
    ]
    candidates += [(expand_path(path, env.home_dir), "config", {}) for path in env.extra_homes.get(NAME, ())]
    homes: dict[str, Home] = {}
    for path, origin, variables in candidates:
        real = os.path.realpath(path)
        if real not in homes:
            root = _find_runtime(path, variables, env.home_dir)
            homes[real] = Home(
                provider=NAME,
                path=path,
                is_default=real == os.path.realpath(fallback),
                origin=origin,
                places={} if root in (None, path) else {RUNTIME: root},
            )
    return tuple(homes.values())


def find_home(variables: Mapping[str, str], home_dir: str, base: str | None = None) -> tuple[str, str]:
    """The home that a Qwen with these variables uses, and why. `base` is its working directory."""
    usual = os.path.join(home_dir, HOME.directory)
    # qwen 0.24.4: an empty QWEN_HOME names nothing, yet keeps it from reading the .env files (2026-11).
    if HOME_VARIABLE in variables:
        chosen, why = variables[HOME_VARIABLE], HOME_VARIABLE
    else:
        chosen, why = find_in_env_files(HOME_VARIABLE, (usual, home_dir)), ".env"
    return (expand_path(chosen, home_dir, base), why) if chosen else (usual, "default")


def find_data_root(home: Home) -> str | None:
    """The directory that has `projects/`; None when each project has its own."""
    if RUNTIME in home.places:
        return home.places[RUNTIME]
    setting = _read_runtime_setting(home.path)
    if setting and not _ABSOLUTE.match(setting):
        return None
    return expand_path(setting, os.path.expanduser("~")) if setting else home.path


def _find_runtime(home_path: str, variables: Mapping[str, str], home_dir: str) -> str | None:
    chosen = variables.get(RUNTIME_VARIABLE)
    if chosen is None:
        chosen = find_in_env_files(RUNTIME_VARIABLE, (home_path, home_dir))
    if not chosen:
        chosen = _read_runtime_setting(home_path)
        # A relative one is resolved against each project: no one place has all sessions.
        chosen = chosen if chosen and _ABSOLUTE.match(chosen) else None
    return expand_path(chosen, home_dir) if chosen else None


def _read_runtime_setting(home_path: str) -> str | None:
    settings = read_commented_json(os.path.join(home_path, "settings.json"), _Settings)
    return settings.advanced.runtimeOutputDir if settings else None


def is_session_id(name: str) -> bool:
    return _SESSION_ID.match(name) is not None


def encode_project(work_dir: str) -> str:
    """The name of the project directory for a working directory. It can't be turned back: several have the same."""
    # JavaScript replaces UTF-16 units: a character beyond the basic plane becomes two dashes.
    return _NOT_PLAIN.sub(lambda match: "--" if ord(match[0]) > 0xFFFF else "-", work_dir)


def find_resume_dir(work_dir: str, scope: str) -> str | None:
    """The directory from which `qwen --resume` finds this project; None when none of the two fits.

    A session in one of Qwen's own worktrees is kept by the repository's root, and resumed from there.
    """
    root = work_dir.rpartition(_WORKTREES)[0]
    return next((path for path in (work_dir, root) if path and encode_project(path) == scope), None)
