"""How large the house is, and how much of it each question crosses: `python tools/measure_house.py [TREE …]`.

One column per tree, so that two versions can be compared. A tree is a checkout whose `src` can be imported by this
Python; docs/decisions/022 has the table of 0.1.0 and what followed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS = {
    "ps": ["ps", "--all"],
    "usage": ["usage"],
    "restore": ["resume", "nobody"],
    "hooks": ["hooks"],
    "serve": ["serve", "--help"],
}
PROVIDERS = ("kimi_cli", "kimi_code", "qwen_code")
IMPORTED = re.compile(r"^import time:.*\| +(corral(?:\.\w+)*)$", re.MULTILINE)


def main(trees: list[Path]) -> None:
    columns = [measure(tree) for tree in trees]
    for name in columns[0]:
        print("| " + " | ".join([name, *(column[name] for column in columns)]) + " |")


def measure(tree: Path) -> dict[str, str]:
    source = tree / "src" / "corral"
    figures = {"files, lines": count(source)}
    for name in PROVIDERS:
        figures[f"`{name}`: files, lines"] = count(source / "providers" / name)
    figures["largest room: files"] = max((len(list(room.glob("*.py"))), room.name) for room in rooms(source)).__str__()
    for name, words in COMMANDS.items():
        modules = list_imported(tree, words)
        packages = {module.split(".")[1] for module in modules if "." in module}
        figures[f"`{name}`: modules, rooms"] = f"{len(modules)}, {len(packages)}"
    return figures


def rooms(source: Path) -> list[Path]:
    return [path for path in source.rglob("*") if path.is_dir()]


def count(place: Path) -> str:
    files = list(place.rglob("*.py"))
    return f"{len(files)}, {sum(len(file.read_bytes().splitlines()) for file in files):,}"


def list_imported(tree: Path, words: list[str]) -> set[str]:
    """The modules of corral that a command imports, in an empty home."""
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.defpath, "HOME": home, "PYTHONPATH": str(tree / "src"), "LANG": "C.UTF-8"}
        command = [sys.executable, "-X", "importtime", "-m", "corral", *words]
        done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, timeout=60, check=False)
    return set(IMPORTED.findall(done.stderr))


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or [Path(__file__).parent.parent])
