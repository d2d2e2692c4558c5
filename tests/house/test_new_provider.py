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

from corral.providers.registry import all_providers

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "corral"
NAMES = {name for provider in all_providers() for name in (provider.name, provider.name.replace("-", "_"))}
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
    hook = package / "hooks" / "program" / "main.py"  # on a busy machine it may take longer than that
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


LISTING = '''
"""Notes CLI: sessions are files `<id>.txt` in `~/.notes`, and that is all that is known of it."""

from __future__ import annotations

import os
from collections.abc import Iterator

from corral.machine.processes import Process, ProcessTable
from corral.model.key import Home, is_valid_id
from corral.model.known import Known
from corral.model.process import Recognised
from corral.model.record import SessionRecord, Skipped, TurnState
from corral.providers.contract import Capabilities, Provider, not_resumed
from corral.providers.kit.homes import HomePlace

NAME = "notes-cli"
HOME = HomePlace(NAME, "NOTES_HOME", ".notes")


def list_sessions(home: Home, known: Known) -> Iterator[SessionRecord | Skipped]:
    for entry in os.scandir(home.path):
        session_id = entry.name.removesuffix(".txt")
        if not is_valid_id(session_id) or not entry.is_file(follow_symlinks=False):
            yield Skipped(provider=NAME, path=entry.path, reason="not a session")
            continue
        yield SessionRecord(
            provider=NAME,
            home=home.path,
            scope="",
            session_id=session_id,
            path=entry.path,
            work_dir=None,
            title=None,
            created_at=None,
            updated_at=entry.stat().st_mtime,
            durable=True,
            turn=TurnState.ENDED,
        )


def recognise(process: Process, table: ProcessTable) -> Recognised | None:
    if process.comm != "notes":
        return None
    return Recognised(
        provider=NAME,
        identity=process.identity,
        started_at=process.started_at,
        home=HOME.find_of(process),
        group=process.pid,
        work_dir=process.cwd,
    )


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Notes CLI",
        program="notes",
        picks_id=False,
        identified_by=(),
        restore="none",
        proven_versions=(),
        home_variables=(HOME.variable,),
        silent_s=None,
        needs_hooks=False,
    ),
    homes=HOME.list,
    list_sessions=list_sessions,
    recognise=recognise,
    plan_resume=not_resumed,
)
'''


def test_a_provider_that_only_lists_is_one_file(tmp_path):
    package = tmp_path / "src" / "corral"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__", "dist"))
    (package / "providers" / "notes_cli").mkdir()
    (package / "providers" / "notes_cli" / "__init__.py").write_text(LISTING.lstrip())
    assert LISTING.count("\n") <= 150
    (tmp_path / ".notes").mkdir()
    (tmp_path / ".notes" / "first.txt").write_text("hello")
    env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path / "src")}

    def ask(*words: str) -> str:
        command = [sys.executable, "-m", "corral", *words]
        done = subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done
        return done.stdout

    def corral(*words: str):
        return json.loads(ask(*words, "--json"))

    (shown,) = [one for one in corral("ps", "--all")["sessions"] if one["provider"] == "notes-cli"]
    assert (shown["session_id"], shown["state"], shown["restore"]["kind"]) == ("first", "idle", "refused")
    (health,) = [one for one in corral("doctor")["providers"] if one["name"] == "notes-cli"]
    assert health["support"] == {"lists": True, "knows_live": False, "resumes": False, "counts": False}
    assert "Notes CLI  (notes-cli)\n  support   lists sessions\n" in ask("doctor")
    assert corral("usage")["skipped"] == []
