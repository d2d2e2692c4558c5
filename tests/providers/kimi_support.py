"""What the tests of both Kimis share: broken inputs, a picture of a tree, and their installations."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

_SETTLES_S = 0.15
FIXTURES = Path(__file__).parent / "fixtures"

ODD_LINES = {
    "garbage": b"\x00\xff garbage {{{\n",
    "NaN": b'{"type":"x","timestamp":NaN,"time":NaN,"message":{"type":"StatusUpdate","payload":{"n":NaN}}}\n',
    "beyond 64 bits": b'{"timestamp":18446744073709551616,"time":18446744073709551616,"type":"x"}\n',
    "lone surrogate": b'{"type":"x","message":{"type":"\\ud800","payload":{"text":"\\udfff"}}}\n',
    "surrogate bytes": b'{"type":"\xed\xa0\x80"}\n',
    "deep nesting": b'{"type":' + b"[" * 200_000 + b"]" * 200_000 + b"}\n",
    "wrong types": b'{"type":[],"message":{"type":{},"payload":7},"timestamp":"now"}\n',
    "not an object": b'[1, 2, "TurnEnd", "turn.ended"]\n',
    "empty lines": b"\n\n\n",
}


def copy_fixture(name: str, target: Path) -> Path:
    shutil.copytree(FIXTURES / name, target)
    return target


def settle(root: Path, seconds_ago: float = 10.0) -> None:
    """As if nothing had been written for a while, so that a listing may keep what it reads.

    The time of the change itself can't be set: it has to pass.
    """
    for directory, _, files in os.walk(root, topdown=False):
        for name in (*files, "."):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            moment = int(status.st_mtime_ns - seconds_ago * 1e9)
            os.utime(path, ns=(moment, moment), follow_symlinks=False)
    time.sleep(_SETTLES_S)


def picture(root: Path) -> dict[str, tuple[int, int, str]]:
    """Every entry of a tree with its mode, time and content: equal pictures are untouched trees."""
    return dict(_entries(root))


def _entries(root: Path) -> Iterator[tuple[str, tuple[int, int, str]]]:
    for directory, directories, files in os.walk(root):
        for name in (*directories, *files, "."):
            path = os.path.join(directory, name)
            status = os.lstat(path)
            content = ""
            if os.path.isfile(path) and not os.path.islink(path) and status.st_size < 1 << 20:
                content = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            yield path, (status.st_mode, status.st_mtime_ns, content)


def install_python(prefix: Path, version: str, command: str = "kimi") -> Path:
    """A virtualenv's files of a kimi-cli release, without the program: what `pip`, `pipx` and `uv` leave."""
    info = prefix / "lib" / "python3.13" / "site-packages" / f"kimi_cli-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.4\nName: kimi-cli\nVersion: {version}\n\nText: no\n")
    (info / "entry_points.txt").write_text("[console_scripts]\nkimi = kimi_cli.__main__:main\n")
    script = prefix / "bin" / command
    script.parent.mkdir(exist_ok=True)
    script.write_text(f"#!{prefix}/bin/python\nimport sys\nfrom kimi_cli.__main__ import main\nmain()\n")
    script.chmod(0o755)
    return script


def install_npm(prefix: Path, package: str, version: str, command: str = "kimi") -> Path:
    """An npm package with a command, as `npm install` lays it out."""
    place = prefix / "node_modules" / package
    (place / "dist").mkdir(parents=True)
    (place / "package.json").write_text(f'{{"name": "{package}", "version": "{version}", "bin": {{}}}}')
    (place / "dist" / "package.json").write_text('{"type": "module"}')
    main = place / "dist" / "main.mjs"
    main.write_text("#!/usr/bin/env node\n")
    main.chmod(0o755)
    link = prefix / "bin" / command
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(main)
    return link
