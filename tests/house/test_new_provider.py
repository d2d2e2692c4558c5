"""A new provider is its own package: nothing else names one, and one that is put there is found by every part."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from corral.engine.catalogue import all_providers

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "corral"
NAMES = {provider.name for provider in all_providers()} | {provider.__name__.rpartition(".")[2] for provider in all_providers()}  # fmt: skip
PLAYS_ONE = SOURCE / "demo" / "reference_agent.py"
"""It is an agent, not a reader of agents: what it writes says whose format that is."""
OUTSIDE = sorted(
    path for path in SOURCE.rglob("*.py") if SOURCE / "providers" not in path.parents and path != PLAYS_ONE
)


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_code_outside_its_package_names_a_provider(path):
    constants = [node.value for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Constant)]
    assert [value for value in constants if value in NAMES] == []


def test_the_layers_name_no_provider():
    contracts = json.dumps(tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"])
    assert not [name for name in NAMES if name in contracts]


@pytest.fixture
def copy(tmp_path) -> Path:
    """corral with one provider more: kimi-code under another name."""
    package = tmp_path / "src" / "corral"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(package / "providers" / "kimi_code", package / "providers" / "probe_cli")
    for path in (package / "providers" / "probe_cli").glob("*.py"):
        text = path.read_text().replace("kimi_code", "probe_cli").replace("kimi-code", "probe-cli")
        path.write_text(text.replace("KIMI_CODE_HOME", "PROBE_HOME"))
    hook = package / "hooks" / "program.py"  # on a busy machine it may take longer than that
    hook.write_text(hook.read_text().replace("GIVE_UP_SECONDS = 4.0", "GIVE_UP_SECONDS = 60.0"))
    return tmp_path


def test_a_new_provider_is_listed_hooked_and_reported(copy):
    env = {
        "HOME": str(copy),
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": str(copy / "src"),
        "PROBE_HOME": str(copy / "probe"),
    }
    env |= {f"CORRAL_{name}_DIR": str(copy / name.lower()) for name in ("STATE", "DATA", "CONFIG", "CACHE")}
    session = copy / "probe" / "sessions" / "wd_app_1" / "session_a"
    session.mkdir(parents=True)

    def corral(*words: str) -> str:
        command = [sys.executable, "-m", "corral", *words]
        done = subprocess.run(command, env=env, cwd=copy, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    assert "probe-cli" in corral("hooks", "status")
    corral("hooks", "install", "probe-cli")
    config = tomllib.loads((copy / "probe" / "config.toml").read_text())
    payload = {"hook_event_name": "SessionStart", "session_id": "session_a", "source": "startup", "cwd": str(copy)}
    agent = (
        "import ctypes, os, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(15, b'probe-cli', 0, 0, 0)\n"
        "subprocess.run(['sh', '-c', sys.argv[1]], input=sys.argv[2].encode())\n"
        "print(os.getpid(), flush=True)\n"
        "sys.stdin.read()"
    )
    words = [sys.executable, "-c", agent, config["hooks"][0]["command"], json.dumps(payload)]
    process = subprocess.Popen(words, stdin=-1, stdout=-1, text=True, env={**os.environ, **env})
    try:
        assert process.stdout and process.stdout.readline() == f"{process.pid}\n"
        assert json.loads((session / "runtime.json").read_text())["provider"] == "probe-cli"
        (shown,) = [
            one for one in json.loads(corral("ps", "--all", "--json"))["sessions"] if one["provider"] == "probe-cli"
        ]
        assert (shown["session_id"], shown["state"], shown["pid"]) == ("session_a", "live", process.pid)
    finally:
        process.kill()
        process.wait()
