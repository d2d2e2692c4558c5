"""Each provider's reporter: which CLI called, told from what the process shows, and the same home as corral reads."""

from __future__ import annotations

import importlib
import os

import pytest

from corral.hooks.program.main import find_reporter
from corral.hooks.program.reporter import Reporter
from corral.providers.contract import Environment
from corral.providers.kit.caller import Caller
from corral.providers.registry import all_providers

MODULES = [f"corral.providers.{name}.reporter" for name in ("kimi_cli", "kimi_code", "qwen_code")]
KIMI_CODE = {"client_type": "kimi_code_cli"}


def caller(comm: str, pid: int = 2**22 + 1) -> Caller:
    """A process that shows nothing but its name."""
    return Caller(pid, 1, comm, "/")


@pytest.mark.parametrize("module", MODULES)
def test_a_reporter_offers_all_that_the_hook_asks_for(module):
    reporter = importlib.import_module(module)
    for name in {name for name in vars(Reporter) if not name.startswith("_")} | set(Reporter.__annotations__):
        assert hasattr(reporter, name), name


@pytest.mark.parametrize(
    ("named", "comm", "payload", "found"),
    [
        ("kimi-cli", "Kimi Code", {}, "kimi-cli"),
        ("kimi-code", "kimi-code", KIMI_CODE, "kimi-code"),
        ("qwen-code", "node", {}, "qwen-code"),
        ("qwen-code", "qwen", {}, "qwen-code"),
        # `kimi migrate` copied the hook, and so could anyone
        ("kimi-cli", "kimi-code", KIMI_CODE, "kimi-code"),
        ("kimi-cli", "kimi-code", {}, "kimi-code"),
        ("kimi-cli", "node", KIMI_CODE, "kimi-code"),
        ("kimi-code", "Kimi Code", {}, "kimi-cli"),
        ("qwen-code", "kimi-code", {}, "kimi-code"),
        # an interpreter alone proves nothing
        ("kimi-cli", "node", {}, None),
        ("kimi-code", "node", {}, None),
        ("kimi-cli", "python3.11", {}, None),
        ("qwen-code", "python3.11", {}, None),
        ("nobody", "node", {}, None),
    ],
)
def test_what_the_process_shows_outranks_our_command_line(named, comm, payload, found):
    reporter = find_reporter(named, MODULES, caller(comm), payload)
    assert (reporter.name if reporter else None) == found


REPORTING = [provider for provider in all_providers() if provider.hooks() is not None]


@pytest.mark.parametrize("provider", REPORTING, ids=lambda provider: provider.name)
@pytest.mark.parametrize("moved", [False, True])
def test_the_hook_and_corral_agree_on_the_home(provider, moved, tmp_path, monkeypatch):
    (variable, *_) = provider.capabilities.home_variables
    variables = {"HOME": str(tmp_path), **({variable: str(tmp_path / "elsewhere")} if moved else {})}
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    reporter = importlib.import_module(f"corral.providers.{provider.name.replace('-', '_')}.reporter")
    env = Environment(home_dir=str(tmp_path), variables=variables, extra_homes={})
    assert reporter.find_home(caller("x")) == provider.homes(env)[0].path
