"""The hook program as one file: what is in it, what it may import, and that any Python runs it."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from corral.hooks.command import base_interpreter
from corral.hooks.program import bundle
from corral.providers.registry import all_providers

PROVIDERS = Path(bundle.__file__).parents[2] / "providers"


def imports_of(source: bytes) -> set[str]:
    """Every module that a source may import, except for type checkers."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found.update(
                {f"{node.module}.{alias.name}" for alias in node.names} & set(bundle.list_sources()) or {node.module}
            )
    return found


@pytest.mark.parametrize("name", [name for name, source in bundle.list_sources().items() if source])
def test_a_part_imports_only_the_standard_library_and_other_parts(name):
    imported = imports_of(bundle.list_sources()[name])
    ours = {module for module in imported if module.partition(".")[0] == "corral"}
    assert ours <= set(bundle.list_sources())
    assert {module.partition(".")[0] for module in imported - ours} <= sys.stdlib_module_names


@pytest.mark.parametrize("path", sorted(PROVIDERS.glob("*/reporter.py")), ids=lambda path: path.parent.name)
def test_a_reporter_knows_no_other_provider_and_nothing_of_corrals_views(path):
    ours = {module for module in imports_of(path.read_bytes()) if module.startswith("corral.")}
    allowed = ("corral.sidecar.", "corral.providers.kit.caller", "corral.providers.kit.reported")
    assert all(module.startswith(allowed) for module in ours), ours


@pytest.mark.parametrize("provider", all_providers(), ids=lambda provider: provider.name)
def test_a_provider_that_takes_hooks_has_its_reporter_in_the_program(provider):
    module = f"corral.providers.{provider.name.replace('-', '_')}.reporter"
    assert (provider.hooks() is not None) == (module in bundle.list_sources())
    if provider.hooks() is not None:
        assert provider.hooks().provider == provider.name


def test_a_package_with_a_reporter_is_bundled_with_no_list_edited(tmp_path, monkeypatch):
    monkeypatch.setattr(bundle, "_ROOT", tmp_path / "corral")
    for name in ("alpha", "beta"):
        (tmp_path / "corral" / "providers" / name).mkdir(parents=True)
    (tmp_path / "corral" / "providers" / "alpha" / "reporter.py").write_text("name = 'alpha'\n")
    bundle.list_sources.cache_clear()
    try:
        assert bundle.list_sources()["corral.providers.alpha.reporter"] == b"name = 'alpha'\n"
        assert "corral.providers.beta" not in bundle.list_sources()
    finally:
        bundle.list_sources.cache_clear()


def test_the_packages_in_it_are_empty():
    sources = bundle.list_sources()
    assert sources["corral.providers"] == sources["corral.sidecar"] == sources["corral.providers.kimi_cli"] == b""


def test_slow_modules_are_not_loaded(tmp_path):
    """Each of them would cost the CLI that waits more than all of our own code."""
    program = tmp_path / "hook.py"
    starter = bundle.build_program().replace(b"    main([", b"    trace()\n    main([")
    trace = b"""
def trace():
    import os
    leave = os._exit
    def say(code):
        os.write(1, " ".join(sys.modules).encode())
        leave(code)
    os._exit = say
"""
    program.write_bytes(starter.replace(b'if __name__ == "__main__":', trace + b'if __name__ == "__main__":'))
    # Below a process that is called like kimi-cli, so that it goes all the way.
    code = (
        "import ctypes, subprocess, sys\n"
        "ctypes.CDLL(None).prctl(15, b'Kimi Code', 0, 0, 0)\n"
        "sys.stdout.write(subprocess.run(sys.argv[1:], stdin=0, capture_output=True, text=True).stdout)"
    )
    words = [base_interpreter(), "-I", "-S", str(program), "kimi-cli", str(tmp_path / "state")]
    payload = '{"hook_event_name": "SessionStart", "session_id": "s1", "cwd": "/"}'
    env = {**os.environ, "KIMI_SHARE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code, *words], input=payload, capture_output=True, text=True, env=env)
    loaded = set(done.stdout.split())
    assert "corral.hooks.program.report" in loaded and "corral.providers.kimi_cli.reporter" in loaded, done
    assert (tmp_path / "state" / "journal" / "kimi-cli").is_dir()
    slow = {"typing", "re", "json", "pathlib", "collections", "enum", "functools", "contextlib", "runpy", "hashlib"}
    assert loaded & {*slow, "corral.providers.kimi_code.reporter", "corral.sidecar.processes_elsewhere"} == set()


@pytest.mark.parametrize("damage", ["no comments", "half", "other code"])
def test_a_damaged_or_older_program_is_told(tmp_path, damage):
    path = tmp_path / "hook.py"
    whole = bundle.build_program()
    path.write_bytes(
        {"no comments": b"pass\n", "half": whole[:-500], "other code": whole.replace(b"GIVE", b"give").replace(b"class Modules", b"class Other")}[damage]
    )  # fmt: skip
    expected = {"no comments": "damaged", "half": "damaged", "other code": "another corral version"}[damage]
    assert expected in (bundle.find_problem(str(path)) or "")
