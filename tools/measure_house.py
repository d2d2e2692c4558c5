"""How large the house is, and how much of it each question crosses: `python tools/measure_house.py [TREE …]`.

One column per tree, so that two versions can be compared. A tree is a checkout whose `src` can be imported by this
Python; docs/decisions/022-one-house.md has the table of 0.1.0 and what followed. Agents that run on the machine add
modules to some commands: run it in a PID namespace of its own (`unshare --pid --fork --mount-proc`).
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

COMMANDS: tuple[str, ...] = (
    "ps --all", "show nobody", "explain nobody", "pid 1", "resume nobody", "attach nobody", "terminals", "kill nobody",
    "url", "logins", "top --json", "usage", "sql --schema", "statusline", "hooks", "sidecar check nothing", "prices",
    "doctor", "config", "completion bash",
)  # fmt: skip
"""All that end by themselves. `resume` is refused only after the whole way to a start was imported."""
BUNDLES = ("hooks/program/bundle.py", "hooks/bundle.py")
"""Where the hook program is packed, here and in 0.1.0."""
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
    most, largest = max((len(list(room.glob("*.py"))), room.name) for room in rooms(source))
    figures["largest room: files"] = f"{most} (`{largest}`)"
    for command in COMMANDS:
        figures[f"`{command.split()[0]}`: modules, rooms"] = say_crossed(list_imported(tree, command.split()))
    figures["`serve`: modules, rooms"] = say_crossed(list_served(tree))
    figures["hook → page: modules, rooms"] = say_crossed(list_packed(tree) | list_served(tree))
    return figures


def say_crossed(modules: set[str]) -> str:
    packages = {module.split(".")[1] for module in modules if "." in module}
    return f"{len(modules)}, {len(packages)}"


def rooms(source: Path) -> list[Path]:
    return [path for path in source.rglob("*") if path.is_dir()]


def count(place: Path) -> str:
    files = list(place.rglob("*.py"))
    return f"{len(files)}, {sum(len(file.read_bytes().splitlines()) for file in files):,}"


def list_imported(tree: Path, words: list[str]) -> set[str]:
    """The modules of corral that a command imports, in an empty home."""
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, "-X", "importtime", "-m", "corral", *words]
        done = subprocess.run(
            command, env=environment(tree, home), cwd=home, capture_output=True, text=True, timeout=60, check=False
        )
    return set(IMPORTED.findall(done.stderr))


def list_served(tree: Path) -> set[str]:
    """Those that a server has imported when it listens: its watcher reads what hooks wrote, and the page gets it."""
    with tempfile.TemporaryDirectory() as home, open(f"{home}/imported", "w+") as imported:
        command = [sys.executable, "-X", "importtime", "-m", "corral", "serve", "--port", "0"]
        env = environment(tree, home)
        with subprocess.Popen(command, env=env, cwd=home, stdout=subprocess.PIPE, stderr=imported) as server:
            assert server.stdout and server.stdout.readline(), "it prints its link when it listens"
            server.send_signal(signal.SIGINT)
            server.stdout.read()
        imported.seek(0)
        return set(IMPORTED.findall(imported.read()))


def list_packed(tree: Path) -> set[str]:
    """Those of the hook program, which runs alone."""
    bundle = next(place for place in BUNDLES if (tree / "src" / "corral" / place).is_file())
    name = f"corral.{bundle.removesuffix('.py').replace('/', '.')}"
    code = f"from {name} import list_sources\nprint(*(name for name, source in list_sources().items() if source))"
    env = environment(tree, str(tree))
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60, check=True)
    return set(done.stdout.split())


def environment(tree: Path, home: str) -> dict[str, str]:
    return {"PATH": os.defpath, "HOME": home, "PYTHONPATH": str(tree.absolute() / "src"), "LANG": "C.UTF-8"}


if __name__ == "__main__":
    main([Path(word) for word in sys.argv[1:]] or [Path(__file__).parent.parent])
