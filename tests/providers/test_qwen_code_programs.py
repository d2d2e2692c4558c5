"""Which Qwen Code program would be started, and its version, without running it."""

from __future__ import annotations

import json
import os
from pathlib import Path

from corral.model.restore import Program
from corral.providers.qwen_code import PROVIDER as qwen_code
from tests.providers.qwen_support import environment, install


def program_of(root: Path) -> Program | None:
    return qwen_code.find_program(environment(root, {"PATH": f"/nowhere:{root / 'bin'}"}))


def test_the_version_is_told_without_running(tmp_path: Path) -> None:
    path = install(tmp_path)
    assert program_of(tmp_path) == Program(provider=qwen_code.name, path=str(path), version="0.24.4")


def test_a_version_without_registry_is_a_problem(tmp_path: Path) -> None:
    install(tmp_path, "0.15.10")
    found = program_of(tmp_path)
    assert found is not None
    assert found.problem is not None
    assert "0.15.10" in found.problem


def test_a_version_that_updated_itself_is_the_one_in_force(tmp_path: Path) -> None:
    import hashlib

    entry = os.path.realpath(install(tmp_path))
    place = tmp_path / ".qwen" / "updates" / "npm" / hashlib.sha256(entry.encode()).hexdigest()[:16]
    package = place / "versions" / "0.25.1" / "node_modules" / "@qwen-code" / "qwen-code"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"name": "@qwen-code/qwen-code", "version": "0.25.1"}')
    active = {
        "version": "0.25.1",
        "bootstrap": entry,
        "baseVersion": "0.24.4",
        "bootstrapCtimeMs": os.stat(entry).st_ctime_ns / 1e6,
    }
    (place / "active.json").write_text(json.dumps(active))
    found = program_of(tmp_path)
    assert found is not None
    assert found.version == "0.25.1"
    (place / "active.json").write_text(json.dumps(active | {"baseVersion": "0.24.3"}))
    found = program_of(tmp_path)
    assert found is not None
    assert found.version == "0.24.4"


def test_another_product_called_qwen_is_not_it(tmp_path: Path) -> None:
    install(tmp_path, product="qwen")
    assert program_of(tmp_path) is None


def test_no_program_is_none(tmp_path: Path) -> None:
    assert program_of(tmp_path) is None
