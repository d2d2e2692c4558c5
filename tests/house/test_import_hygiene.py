"""What a command may import: `corral ps` stays light, and the sidecar needs nothing but the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "asyncio",
    "rich",
    "starlette",
    "uvicorn",
    "genai_prices",
    "tomlkit",
    "subprocess",
    "inspect",
    "ssl",
}


def modules_after(code: str, tmp_path: Path) -> set[str]:
    """The modules that a fresh interpreter holds after running `code` in an empty home."""
    script = f"{code}\nimport sys\nprint('\\n'.join(sys.modules), file=sys.__stderr__)"
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return set(done.stderr.split())


def test_ps_imports_nothing_heavy(tmp_path):
    loaded = modules_after("from corral.cli.main import main\nassert main(['ps', '--all']) == 0", tmp_path)
    assert "corral.engine.survey" in loaded
    assert loaded & HEAVY == set()


def test_ps_as_json_imports_nothing_heavy(tmp_path):
    loaded = modules_after("from corral.cli.main import main\nassert main(['ps', '--json']) == 0", tmp_path)
    assert loaded & HEAVY == set()


def test_the_sidecar_needs_only_the_standard_library(tmp_path):
    loaded = modules_after("import corral.sidecar", tmp_path)
    foreign = (
        {name.partition(".")[0] for name in loaded}
        - set(sys.stdlib_module_names)
        - {"corral", "__main__", "__mp_main__"}
    )
    # An editable install brings its own finder along.
    foreign = {
        name
        for name in foreign
        if not name.startswith(("_editable", "__editable", "sitecustomize", "_virtualenv", "_distutils_hack"))
    }
    assert foreign == set()
    inner = {name for name in loaded if name.startswith("corral.")} - {"corral.version"}
    assert all(name.startswith("corral.sidecar") for name in inner)


def test_importing_corral_is_lazy(tmp_path):
    assert "msgspec" not in modules_after("import corral", tmp_path)


def test_usage_needs_only_the_standard_library_while_nothing_has_changed(tmp_path):
    log = tmp_path / ".kimi" / "sessions" / ("0" * 32) / "s" / "wire.jsonl"
    log.parent.mkdir(parents=True)
    log.write_text(
        '{"timestamp": 1794000000.5, "message": {"type": "StatusUpdate", "payload": {"token_usage": {"input_other": 1,'
        ' "output": 1}, "message_id": "m"}}}\n'
    )
    ask = "from corral.cli.main import main\nassert main(['usage']) == 0"
    assert "msgspec" in modules_after(ask, tmp_path)
    loaded = modules_after(ask, tmp_path)
    foreign = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names)
    assert "msgspec" not in loaded and "corral.engine.usage_watch" in loaded
    assert not any(name.startswith("corral.providers") for name in loaded)
    assert loaded & HEAVY == set()
    assert {name for name in foreign if not name.startswith(("_", "sitecustomize"))} <= {"corral", "editables"}


def test_a_holder_needs_only_the_standard_library_and_its_own_few_modules(tmp_path):
    script = (
        "import sys\n"
        "import os; os.close(0); os.open(os.devnull, 0)\n"
        "held = sys.argv[1]\n"
        "code = compile(open(held).read().replace('    hold()', '    print(*sys.modules)'), held, 'exec')\n"
        "exec(code, {'__name__': '__main__', '__file__': held})\n"
    )
    holder = ROOT / "src" / "corral" / "terminals" / "__main__.py"
    words = [sys.executable, "-I", "-S", "-c", script, str(holder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env={})
    loaded = set(done.stdout.split())
    assert "corral.terminals.holder" in loaded
    foreign = {name.partition(".")[0] for name in loaded} - set(sys.stdlib_module_names) - {"corral", "__main__"}
    assert foreign == set()
    assert all(name.startswith(("corral.terminals", "corral.sidecar")) for name in loaded if name.startswith("corral."))
    assert loaded & {"asyncio", "json", "subprocess", "typing", "msgspec", "logging", "threading"} == set()
