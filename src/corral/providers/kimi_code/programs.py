"""The `kimi` that is kimi-code: told from kimi-cli, whose command has the same name."""

from __future__ import annotations

from collections.abc import Iterator

from corral.model.restore import Program
from corral.providers import Environment
from corral.providers.kimi_code.places import NAME
from corral.system.programs import find_on_path, identify

PACKAGE = "@moonshot-ai/kimi-code"


def find_program(env: Environment) -> Program | None:
    """The first `kimi` on PATH that belongs to the npm package; others of that name are passed over."""
    for path in _candidates(env):
        installed = identify(path)
        if installed is not None and installed.product == PACKAGE:
            return Program(provider=NAME, path=path, version=installed.version)
    return None


def _candidates(env: Environment) -> Iterator[str]:
    if chosen := env.programs.get(NAME):
        yield chosen
    for command in ("kimi", "kimi-code"):
        yield from find_on_path(command, env.variables.get("PATH", ""))
