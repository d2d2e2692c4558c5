"""Fixtures of the contract tests: the real CLIs, one model server per test, and a home that goes away."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.contract import homes
from tests.contract.agents import Agents, install
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.drive_qwen_code import QwenCode
from tests.contract.driver import Driver
from tests.contract.model_server import ModelServer

CLIS = ("kimi_cli", "kimi_code", "qwen_code")


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of the same name
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of one CLI run one after another: corral sees every process of the user, in whatever home."""
    for item in items:
        names = {
            *getattr(item, "fixturenames", ()),
            *getattr(getattr(item, "callspec", None), "params", {}).values(),
        }
        for cli in CLIS:
            if cli in names or f"test_{cli}.py" in str(item.path):
                item.add_marker(pytest.mark.xdist_group(cli))


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
def kimi_cli(home: Path, agents: Agents, model_server: ModelServer) -> KimiCli:
    return KimiCli(homes.make_kimi_cli_home(home, agents, model_server), model_server)


@pytest.fixture
def kimi_code(home: Path, agents: Agents, model_server: ModelServer) -> KimiCode:
    return KimiCode(homes.make_kimi_code_home(home, agents, model_server), model_server)


@pytest.fixture
def qwen_code(home: Path, agents: Agents, model_server: ModelServer) -> QwenCode:
    return QwenCode(homes.make_qwen_code_home(home, agents, model_server), model_server)


@pytest.fixture(params=CLIS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Each of the CLIs in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["kimi_cli", "kimi_code"])
def kimi(request: pytest.FixtureRequest) -> Driver:
    """Each of the two Kimis in turn."""
    return request.getfixturevalue(request.param)
