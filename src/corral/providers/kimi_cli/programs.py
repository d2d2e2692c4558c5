"""The `kimi` that is kimi-cli: told from kimi-code of the same name, and from the empty last release."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.restore import Program
from corral.providers import Environment
from corral.providers.kimi_cli.places import NAME
from corral.system.programs import Installed, find_on_path, identify, parse_version, version_tuple

# A global install of kimi-code renames the Python command to `kimi-legacy` (read in its source, 2026-11).
_COMMANDS = ("kimi", "kimi-legacy", "kimi-cli")
_TOMBSTONE = (1, 52)


def find_program(env: Environment) -> Program | None:
    """The first kimi-cli that works, else the first that does not, with its problem."""
    unusable: Program | None = None
    for path in _candidates(env):
        installed = identify(path) or _ask(path, env)
        if installed is None and path == env.programs.get(NAME):
            return Program(provider=NAME, path=path, version=None)
        if installed is None or installed.product != NAME:
            continue
        problem = _find_problem(installed.version)
        program = Program(provider=NAME, path=path, version=installed.version, problem=problem)
        if problem is None:
            return program
        unusable = unusable or program
    return unusable


def _ask(path: str, env: Environment) -> Installed | None:
    # kimi 1.51 says "kimi, version 1.51.0"; kimi-code says the bare number (2026-11)
    said = env.ask_version(path)
    version = parse_version(said) if said and said.startswith("kimi, version ") else None
    return Installed(NAME, version, path) if version else None


def _candidates(env: Environment) -> Iterator[str]:
    if chosen := env.programs.get(NAME):
        yield chosen
    for command in _COMMANDS:
        yield from find_on_path(command, env.variables.get("PATH", ""))


def _find_problem(version: str) -> str | None:
    # kimi 1.52.0 prints a notice and exits 0 whatever it is asked; bare, it installs kimi-code (2026-11)
    if version_tuple(version) >= _TOMBSTONE:
        return f"kimi-cli {version} does nothing any more: 1.51.0 is the last release that works"
    return None
