"""Where Qwen Code keeps its data: the home in force, the runtime directory, and its names for projects and sessions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from corral.model.key import Home
from corral.providers.contract import Environment
from corral.providers.kit.homes import HomePlace
from corral.providers.qwen_code import reporter
from corral.sidecar.files import Unreadable, read_regular

NAME = reporter.name
HOME = HomePlace(NAME, *reporter.HOME)
HOME_VARIABLE = HOME.variable
RUNTIME_VARIABLE = "QWEN_RUNTIME_DIR"
RUNTIME = "runtime"
"""The place that has `projects/`, where it is not the root itself."""

_SETTINGS_LIMIT = 4 << 20
_ENV_LIMIT = 1 << 20
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n\r]*|/\*.*?\*/', re.DOTALL)
_ASSIGNMENT = r"""^\s*(?:export\s+)?{name}(?:\s*=|:\s)[ \t]*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^#\r\n]*))"""


def list_homes(env: Environment) -> tuple[Home, ...]:
    """The home in force, then the one Qwen would choose without variables, then those of corral's config.

    Two paths that lead to the same directory are one home; a default one that is neither in force nor
    there is left out.
    """
    usual = os.path.join(env.home_dir, HOME.directory)
    in_force, origin = find_home(env.variables, env.home_dir)
    fallback, fallback_origin = find_home({}, env.home_dir)
    candidates = [(in_force, origin, env.variables)]
    candidates += [
        (path, why, {}) for path, why in ((fallback, fallback_origin), (usual, "default")) if os.path.isdir(path)
    ]
    candidates += [(expand(path, env.home_dir), "config", {}) for path in env.extra_homes.get(NAME, ())]
    default_real = os.path.realpath(fallback)
    homes: dict[str, Home] = {}
    for path, why, variables in candidates:
        real = os.path.realpath(path)
        if real not in homes:
            homes[real] = Home(
                provider=NAME,
                path=path,
                is_default=real == default_real,
                origin=why,
                places=_find_places(path, variables, env.home_dir),
            )
    return tuple(homes.values())


def find_home(variables: Mapping[str, str], home_dir: str, base: str | None = None) -> tuple[str, str]:
    """The home that a Qwen with these variables uses, and why. `base` is its working directory."""
    usual = os.path.join(home_dir, HOME.directory)
    # qwen 0.24.4: an empty QWEN_HOME counts as set, so no .env file is asked, yet it names nothing (2026-11).
    if HOME_VARIABLE in variables:
        chosen = variables[HOME_VARIABLE]
        return (expand(chosen, home_dir, base), HOME_VARIABLE) if chosen else (usual, "default")
    chosen = _find_in_env_files(HOME_VARIABLE, (usual, home_dir))
    return (expand(chosen, home_dir, base), ".env") if chosen else (usual, "default")


def find_data_root(home: Home) -> str | None:
    """The directory that holds `projects/`; None when Qwen keeps it in every project's own directory."""
    if RUNTIME in home.places:
        return home.places[RUNTIME]
    setting = _find_runtime_setting(home.path)
    if setting is None:
        return home.path
    return None if _is_relative(setting) else expand(setting, os.path.expanduser("~"))


def expand(path: str, home_dir: str, base: str | None = None) -> str:
    """A path as Qwen reads it from a variable or a setting: `~` is the user's home, the rest absolute."""
    if path == "~" or path.startswith(("~/", "~\\")):
        path = os.path.join(home_dir, *re.split(r"[/\\]+", path[2:].strip("/\\")))
    return os.path.normpath(os.path.join(base or os.getcwd(), path))


def _find_runtime_setting(home_path: str) -> str | None:
    """`advanced.runtimeOutputDir` of this home's settings.json, as written."""
    content = read_regular(os.path.join(home_path, "settings.json"), _SETTINGS_LIMIT)
    if isinstance(content, Unreadable):
        return None
    text = _COMMENT.sub(lambda match: match[1] or " ", content.data.decode("utf-8", "replace").removeprefix("\ufeff"))
    try:
        return _SETTINGS.decode(text).advanced.runtimeOutputDir or None
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _is_relative(setting: str) -> bool:
    """Whether Qwen resolves this against each project, so that no one place has all sessions."""
    return not setting.startswith(("/", "~/", "~\\")) and setting != "~"


def _find_places(home_path: str, variables: Mapping[str, str], home_dir: str) -> dict[str, str]:
    chosen = variables.get(RUNTIME_VARIABLE)
    if chosen is None:
        chosen = _find_in_env_files(RUNTIME_VARIABLE, (home_path, home_dir))
    if not chosen:
        setting = _find_runtime_setting(home_path)
        chosen = setting if setting and not _is_relative(setting) else None
    path = expand(chosen, home_dir) if chosen else home_path
    return {} if path == home_path else {RUNTIME: path}


def _find_in_env_files(name: str, directories: Iterable[str]) -> str | None:
    for directory in directories:
        content = read_regular(os.path.join(directory, ".env"), _ENV_LIMIT)
        if isinstance(content, Unreadable):
            continue
        values = list(_read_assignments(name, content.data.decode("utf-8", "replace")))
        if values and values[-1]:
            return values[-1]
    return None


def _read_assignments(name: str, text: str) -> Iterator[str]:
    for match in re.finditer(_ASSIGNMENT.format(name=name), text.removeprefix("\ufeff"), re.MULTILINE):
        quoted = next((value for value in match.groups()[:3] if value is not None), None)
        yield quoted if quoted is not None else match[4].strip()


class _Advanced(msgspec.Struct):
    runtimeOutputDir: str | None = None


class _Settings(msgspec.Struct):
    advanced: _Advanced = msgspec.field(default_factory=_Advanced)


_SETTINGS = msgspec.json.Decoder(_Settings)


TRANSCRIPT_SUFFIX = ".jsonl"
RUNTIME_SUFFIX = ".runtime.json"
LEDGER_SUFFIX = ".ledger.jsonl"
"""Of a file beside the transcript that the daemon keeps; it is no session."""

# qwen 0.24.4 accepts these as names of transcripts (read in its bundle, 2026-11); it writes lower-case UUIDs.
_SESSION_ID = re.compile(r"(?!-)[0-9a-fA-F-]{32,36}\Z")
_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9]")
_WORKTREES = "/.qwen/worktrees/"


def is_session_id(name: str) -> bool:
    return _SESSION_ID.match(name) is not None


def encode_project(work_dir: str) -> str:
    """The name of the project directory for a working directory. It collides and can't be turned back."""
    # JavaScript replaces UTF-16 units: a character beyond the basic plane becomes two dashes.
    return _NOT_PLAIN.sub(lambda match: "--" if ord(match[0]) > 0xFFFF else "-", work_dir)


def find_resume_dir(work_dir: str, scope: str) -> str | None:
    """The directory in which `qwen --resume` looks into this project; None when the two do not fit.

    A session recorded in one of Qwen's own worktrees is kept by, and resumed from, the repository's root.
    """
    if encode_project(work_dir) == scope:
        return work_dir
    root = work_dir[: work_dir.rfind(_WORKTREES)] if _WORKTREES in work_dir else ""
    return root if root and encode_project(root) == scope else None
