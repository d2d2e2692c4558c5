"""Fixtures of the contract tests: the real CLIs, one model server per test, and a home that goes away."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract import figures, homes
from tests.contract.agents import Agents, cache_root, install
from tests.contract.drive_claude_code import ClaudeCode
from tests.contract.drive_codex import Codex
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer

# What asserts outside of test files should say as much as what asserts in them.
SCENARIOS = (
    "evidence_scenarios",
    "kill_scenarios",
    "life_scenarios",
    "process_scenarios",
    "resume_scenarios",
    "reuse_scenarios",
    "steps",
    "tab_scenarios",
    "tab_world",
)
pytest.register_assert_rewrite(*(f"tests.contract.{name}" for name in SCENARIOS))

pytest_configure = figures.register

PLACE = Path(__file__).parent
CLIS = ("kimi_cli", "kimi_code", "qwen_code")
TEST_SECONDS = 900
"""For tests that start a CLI several times: what comes too late ends a wait of theirs, which says what it was."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(PLACE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_SECONDS))


@contextmanager
def alone(cli: str) -> Iterator[None]:
    """One test of a CLI at a time, whoever runs it: corral sees every process of the user, in any home.

    That ends at the PID namespace, which is the worker's own where one can be made (tests/contract/worker).
    """
    place = cache_root() / "locks"
    place.mkdir(parents=True, exist_ok=True)
    with open(place / f"{cli}-{os.stat('/proc/self/ns/pid').st_ino}", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def agents() -> Agents:
    """The real programs; the first use on a machine installs them, which takes a minute."""
    return install(lambda line: print(line, flush=True))


@pytest.fixture
def model_server() -> Iterator[ModelServer]:
    server = ModelServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty directory with a short path, to make a CLI's home in."""
    with homes.temporary_root() as root:
        yield root


@pytest.fixture
def claude_code(home: Path, agents: Agents, model_server: ModelServer) -> Iterator[ClaudeCode]:
    with alone("claude_code"):
        yield ClaudeCode(homes.make_claude_code_home(home, agents, model_server), model_server)


@pytest.fixture
def kimi_cli(home: Path, agents: Agents, model_server: ModelServer) -> Iterator[KimiCli]:
    with alone("kimi_cli"):
        yield KimiCli(homes.make_kimi_cli_home(home, agents, model_server), model_server)


@pytest.fixture
def kimi_code(home: Path, agents: Agents, model_server: ModelServer) -> Iterator[KimiCode]:
    with alone("kimi_code"):
        yield KimiCode(homes.make_kimi_code_home(home, agents, model_server), model_server)


@pytest.fixture
def qwen_code(home: Path, agents: Agents, model_server: ModelServer) -> Iterator[QwenCode]:
    with alone("qwen_code"):
        yield QwenCode(homes.make_qwen_code_home(home, agents, model_server), model_server)


@pytest.fixture
def codex(home: Path, agents: Agents, model_server: ModelServer) -> Iterator[Codex]:
    with alone("codex"):
        yield Codex(homes.make_codex_home(home, agents, model_server), model_server)


@pytest.fixture(params=CLIS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the CLIs in turn."""
    return request.getfixturevalue(request.param)
