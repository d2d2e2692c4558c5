"""The installed `qwen` program: where it is, and which version it would run, told without running it."""

from __future__ import annotations

import os

import msgspec

from corral.model.restore import Program
from corral.providers import Environment
from corral.providers.qwen_code.homes import NAME, find_home
from corral.providers.qwen_code.processes import PACKAGE
from corral.sidecar.files import Unreadable, read_regular
from corral.system.programs import (
    Installed,
    find_npm_package,
    find_on_path,
    identify,
    parse_version,
    version_tuple,
)

_COMMAND = "qwen"
_FIRST_WITH_REGISTRY = (0, 22)
_LIMIT = 64 << 10


def find_program(env: Environment) -> Program | None:
    """The program that the config names, else the first Qwen Code on PATH; None when there is none."""
    if named := env.programs.get(NAME):
        return _describe(named, identify(named), env)
    for path in find_on_path(_COMMAND, env.variables.get("PATH", "")):
        installed = identify(path) or _ask(path, env)
        if installed is not None and installed.product == PACKAGE:
            return _describe(path, installed, env)
    return None


def _ask(path: str, env: Environment) -> Installed | None:
    # qwen 0.24.4 says its bare number (2026-11)
    said = env.ask_version(path)
    version = parse_version(said) if said else None
    return Installed(PACKAGE, version, path) if version is not None and version == said else None


def _describe(path: str, installed: Installed | None, env: Environment) -> Program:
    if installed is None:
        return Program(provider=NAME, path=path, version=None)
    if installed.product != PACKAGE:
        problem = f"it is {installed.product}, not {PACKAGE}"
        return Program(provider=NAME, path=path, version=installed.version, problem=problem)
    version = _find_update(path, installed, env) or installed.version
    problem = None
    if version_tuple(version) < _FIRST_WITH_REGISTRY:
        problem = f"version {version} keeps no registry of its processes, so nothing would confirm what it resumed"
    return Program(provider=NAME, path=path, version=version, problem=problem)


def _find_update(path: str, installed: Installed, env: Environment) -> str | None:
    """The version that the wrapper would start instead of its own.

    qwen 0.24.4 can update itself beneath its home and leaves the installed package as it is (read, 2026-11).
    """
    import hashlib

    entry = os.path.realpath(path)
    home, _ = find_home(env.variables, env.home_dir)
    place = os.path.join(home, "updates", "npm", hashlib.sha256(os.fsencode(entry)).hexdigest()[:16])
    content = read_regular(os.path.join(place, "active.json"), _LIMIT)
    if isinstance(content, Unreadable):
        return None
    try:
        active = _ACTIVE.decode(content.data)
        changed_ms = os.stat(entry).st_ctime_ns / 1e6
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, OSError):
        return None
    valid = (
        os.path.realpath(active.bootstrap) == entry
        and active.baseVersion == installed.version
        and abs(active.bootstrapCtimeMs - changed_ms) < 1
        and "/" not in active.version
    )
    if not valid:
        return None
    package = find_npm_package(os.path.join(place, "versions", active.version, "node_modules", PACKAGE, "cli.js"))
    return active.version if package and (package.product, package.version) == (PACKAGE, active.version) else None


class _Active(msgspec.Struct):
    version: str
    bootstrap: str
    baseVersion: str
    bootstrapCtimeMs: float


_ACTIVE = msgspec.json.Decoder(_Active)
