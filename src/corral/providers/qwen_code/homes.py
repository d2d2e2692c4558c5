"""Where Qwen Code keeps its data: the home in force, and the runtime directory where its sessions lie."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

import msgspec

from corral.model.key import Home
from corral.providers import Environment
from corral.sidecar.files import Unreadable, read_regular

NAME = "qwen-code"
HOME_VARIABLE = "QWEN_HOME"
RUNTIME_VARIABLE = "QWEN_RUNTIME_DIR"

_SETTINGS_LIMIT = 4 << 20
_ENV_LIMIT = 1 << 20
_COMMENT = re.compile(r'("(?:\\.|[^"\\])*")|//[^\n\r]*|/\*.*?\*/', re.DOTALL)
_ASSIGNMENT = r"""^\s*(?:export\s+)?{name}(?:\s*=|:\s)[ \t]*(?:"([^"]*)"|'([^']*)'|`([^`]*)`|([^#\r\n]*))"""


def list_homes(env: Environment) -> tuple[Home, ...]:
    """The home in force, then the one Qwen would choose without variables, then those of corral's config.

    Two paths that lead to the same directory are one home; a default one that is neither in force nor
    there is left out.
    """
    usual = os.path.join(env.home_dir, ".qwen")
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
                data_path=_find_data_path(path, variables, env.home_dir),
            )
    return tuple(homes.values())


def find_home(variables: Mapping[str, str], home_dir: str, base: str | None = None) -> tuple[str, str]:
    """The home that a Qwen with these variables uses, and why. `base` is its working directory."""
    usual = os.path.join(home_dir, ".qwen")
    # qwen 0.24.4: an empty QWEN_HOME counts as set, so no .env file is asked, yet it names nothing (2026-11).
    if HOME_VARIABLE in variables:
        chosen = variables[HOME_VARIABLE]
        return (expand(chosen, home_dir, base), HOME_VARIABLE) if chosen else (usual, "default")
    chosen = _find_in_env_files(HOME_VARIABLE, (usual, home_dir))
    return (expand(chosen, home_dir, base), ".env") if chosen else (usual, "default")


def find_data_root(home: Home) -> str | None:
    """The directory that holds `projects/`; None when Qwen keeps it in every project's own directory."""
    if home.data_path is not None:
        return home.data_path
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


def _find_data_path(home_path: str, variables: Mapping[str, str], home_dir: str) -> str | None:
    chosen = variables.get(RUNTIME_VARIABLE)
    if chosen is None:
        chosen = _find_in_env_files(RUNTIME_VARIABLE, (home_path, home_dir))
    if not chosen:
        setting = _find_runtime_setting(home_path)
        chosen = setting if setting and not _is_relative(setting) else None
    if not chosen:
        return None
    path = expand(chosen, home_dir)
    return None if path == home_path else path


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
