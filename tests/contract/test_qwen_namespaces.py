"""qwen-code 0.24.4 in a container: PIDs of its own, a host name of its own, the home shared with the host."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.contract.corral_cli import COMMAND, Corral
from tests.contract.drive_qwen_code import QwenCode, QwenCodeTui
from tests.contract.processes import descendants, read_proc
from tests.contract.steps import find_session, wait_dead
from tests.contract.terminal import Terminal
from tests.contract.tui import Tui

NAME = "a-container"


class InnerQwen(QwenCodeTui):
    """Below `unshare`. Its registry names it by its number inside; it is the only one there."""

    def serving_pid(self) -> int:
        """As the host counts."""
        levels = [proc for proc in descendants(self.terminal.pid) if self.is_mine(proc) and not proc.is_copy]
        return max(levels, key=lambda proc: (proc.start_ticks, proc.pid)).pid

    def current_session(self) -> str | None:
        for path in (self.home.data / "sessions").glob("*.json"):
            try:
                return json.loads(path.read_text())["sessionId"]
            except (OSError, ValueError):
                return None
        return None


@contextmanager
def contained(driver: QwenCode, *words: str, hostname: str | None) -> Iterator[Tui]:
    """A Qwen in namespaces of its own; without a host name it keeps the host's."""
    if os.geteuid() != 0:
        pytest.fail("this test makes namespaces: run it as root")
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.fail("unshare is missing: install the package util-linux")
    rename = f"echo {hostname} > /proc/sys/kernel/hostname && " if hostname else ""
    options = ["--pid", "--fork", "--mount-proc", "--kill-child", *(["--uts"] if hostname else [])]
    argv = [unshare, *options, "sh", "-c", f'{rename}exec "$0" "$@"', driver.command, *words]
    with InnerQwen(Terminal(argv, cwd=driver.home.work_dir, env=driver.home.env), driver.server, driver.home) as agent:
        agent.wait_ready()
        yield agent


def inner_pid_of(pid: int) -> int:
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[-1]) for line in status if line.startswith("NSpid:"))


def kill_container(agent: Tui) -> None:
    """Its first process is killed, and the kernel takes the others along.

    Without `unshare`, which leads the terminal's session, they would be hung up first and might say goodbye.
    """
    serving = read_proc(agent.serving_pid())
    (first,) = [proc for proc in descendants(agent.terminal.pid) if proc.ppid == agent.terminal.pid]
    assert serving is not None
    os.kill(first.pid, signal.SIGKILL)
    wait_dead(serving)


# Only from there it is seen that a namespace is gone (docs/how-corral-knows.md).
first_namespace = pytest.mark.first_namespace


@pytest.fixture
def corral(qwen_code: QwenCode) -> Corral:
    corral = Corral(qwen_code.home, qwen_code.name)
    corral.install_hooks()
    return corral


@pytest.fixture
def bare(qwen_code: QwenCode) -> Corral:
    return Corral(qwen_code.home, qwen_code.name)


@pytest.mark.parametrize("hostname", [NAME, None])
def test_it_is_live_by_its_number_on_the_host_and_idle_after_it_has_quit(
    qwen_code: QwenCode, corral: Corral, hostname: str | None
) -> None:
    with contained(qwen_code, hostname=hostname) as agent:
        agent.prompt("hello from within")
        first = find_session(qwen_code, "hello from within")
        pid = agent.serving_pid()
        assert inner_pid_of(pid) != pid
        corral.wait_live({first: [pid]})
        second = agent.new_session()
        agent.prompt("hello once more")
        corral.wait_live({second: [pid]})
        assert corral.states() == {first: "idle", second: "live"}
        agent.quit()
    left = list((qwen_code.home.data / "projects").glob(f"*/chats/{second}.runtime.json"))
    assert len(left) == 1  # Qwen leaves it behind
    corral.wait_resting({first: "idle", second: "idle"})
    assert corral.rows()[second]["restore"]["kind"] == "resume"


@first_namespace
@pytest.mark.parametrize("hostname", [NAME, None])
def test_killed_with_its_namespace_it_is_dead_for_the_registry_and_for_runtime_json(
    qwen_code: QwenCode, bare: Corral, hostname: str | None
) -> None:
    with contained(qwen_code, hostname=hostname) as agent:
        agent.prompt("hello from within")
        session_id = find_session(qwen_code, "hello from within")
        bare.wait_live({session_id: [agent.serving_pid()]})
        kill_container(agent)
    assert len(list((qwen_code.home.data / "sessions").glob("*.json"))) == 1
    bare.wait_resting({session_id: "idle"})


@first_namespace
def test_killed_after_a_switch_the_journal_knows_whose_record_it_is(qwen_code: QwenCode, corral: Corral) -> None:
    with contained(qwen_code, hostname=NAME) as agent:
        agent.prompt("hello from within")
        first = find_session(qwen_code, "hello from within")
        second = agent.new_session()
        agent.prompt("hello once more")
        corral.wait_live({second: [agent.serving_pid()]})
        kill_container(agent)
    corral.wait_resting({first: "idle", second: "idle"})


def test_without_hooks_a_clean_quit_leaves_a_doubt_that_a_person_can_settle(qwen_code: QwenCode, bare: Corral) -> None:
    with contained(qwen_code, hostname=NAME) as agent:
        agent.prompt("hello from within")
        session_id = find_session(qwen_code, "hello from within")
        agent.quit()
    # Nothing but a runtime.json of another host is left: its process may still run there.
    assert bare.states() == {session_id: "elsewhere"}
    refused = bare.run("resume", session_id)
    assert refused.returncode == 1 and "claimed_elsewhere" in refused.stderr and "--anyway" in refused.stderr
    planned = bare.run("resume", session_id, "--anyway", "--print")
    assert planned.returncode == 0 and f"--resume {session_id}" in planned.stdout
    with Terminal(
        [*COMMAND, "resume", session_id, "--anyway"], cwd=qwen_code.home.root, env=qwen_code.home.env
    ) as terminal:
        agent = qwen_code.on(terminal)
        agent.wait_ready()
        bare.wait_live({session_id: [agent.serving_pid()]})
        refused = bare.run("resume", session_id, "--anyway")
        assert refused.returncode == 1 and "already_live" in refused.stderr
        agent.quit()
