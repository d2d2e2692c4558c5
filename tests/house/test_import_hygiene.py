"""What a command may import: `corral ps` stays light, and the sidecar needs nothing but the standard library."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from corral.hooks.program.bundle import list_sources

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "asyncio",
    "rich",
    "starlette",
    "uvicorn",
    "genai_prices",
    "tomlkit",
    "subprocess",
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
    assert "corral.sessions.survey" in loaded
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
    own = {name for name in loaded if name.startswith("corral.")} - {"corral.model", "corral.model.frames"}
    assert all(name.startswith(("corral.terminals", "corral.sidecar")) for name in own)
    assert loaded & {"asyncio", "subprocess", "msgspec", "logging", "threading"} == set()


TRICK = re.compile(
    r"^TYPE_CHECKING = False|sys\.modules\[|\.__class__ =|sidecar\.light import|SourceFileLoader", re.MULTILINE
)
FAST_AND_ALONE = ("hooks/program/", "sidecar/", "terminals/__main__.py")
"""What runs within an agent's life, beside the parts of the hook program that lie elsewhere; and the holder."""
PUBLIC = {"__init__.py", "sessions/__init__.py"}
"""`import corral.sidecar` passes through the first. `corral.sessions()` is public, and so is the room of that name."""


def test_import_tricks_stay_where_a_start_must_be_fast_and_alone():
    source = ROOT / "src" / "corral"
    packed = {f"{name.removeprefix('corral.').replace('.', '/')}.py" for name, code in list_sources().items() if code}
    tricky = {str(path.relative_to(source)) for path in source.rglob("*.py") if TRICK.search(path.read_text())}
    assert [path for path in sorted(tricky - packed - PUBLIC) if not path.startswith(FAST_AND_ALONE)] == []
