"""The `kimi` that is kimi-code: told from kimi-cli, whose command has the same name."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.restore import Program
from corral.providers import Environment
from corral.providers.kimi_code.places import NAME
from corral.system.programs import Installed, find_on_path, identify, parse_version

PACKAGE = "@moonshot-ai/kimi-code"


def find_program(env: Environment) -> Program | None:
    """The first `kimi` that is kimi-code, by its package or by its own word; others of that name are passed over."""
    for path in _candidates(env):
        installed = identify(path) or _ask(path, env)
        if installed is None and path == env.programs.get(NAME):
            return Program(provider=NAME, path=path, version=None)
        if installed is not None and installed.product == PACKAGE:
            return Program(provider=NAME, path=path, version=installed.version)
    return None


def _ask(path: str, env: Environment) -> Installed | None:
    # kimi-code says its bare number and nothing else; kimi-cli says "kimi, version 1.51.0" (2026-11)
    said = env.ask_version(path)
    version = parse_version(said) if said else None
    return Installed(PACKAGE, version, path) if version is not None and version == said else None


def _candidates(env: Environment) -> Iterator[str]:
    if chosen := env.programs.get(NAME):
        yield chosen
    for command in ("kimi", "kimi-code"):
        yield from find_on_path(command, env.variables.get("PATH", ""))
