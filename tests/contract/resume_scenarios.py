"""Back into a conversation, for every CLI: what `corral resume` continues, and what it refuses."""

from __future__ import annotations

import subprocess

import pytest

from tests.contract.corral_cli import COMMAND, Corral, tree
from tests.contract.driver import Driver
from tests.contract.steps import corral_terminal, find_session
from tests.integration.terminals.held import wait_until


class ResumeContract:
    """What was said before is known again, or the reason for a refusal is."""

    # --- back in

    def test_several_resumes_from_another_directory_start_it_once_in_its_own(
        self, driver: Driver, corral: Corral
    ) -> None:
        place = driver.home.another_work_dir("there")
        driver.print_run("my tree is a rowan", work_dir=place)
        session_id = find_session(driver, "my tree is a rowan")
        ids = driver.session_ids_on_disk()
        terminals = [corral_terminal(driver, "resume", session_id, cwd=driver.home.root) for _ in range(4)]
        try:
            # An agent goes on until it is stopped: those that end are the refused ones.
            wait_until(
                lambda: sum(terminal.exit_code is not None for terminal in terminals) == 3, "three refusals", 120
            )
            (started,) = [terminal for terminal in terminals if terminal.exit_code is None]
            for terminal in terminals:
                assert terminal is started or (terminal.wait_exit(), "is not resumed" in terminal.screen()) == (1, True)
            agent = driver.on(started)
            agent.wait_ready()
            corral.wait_live({session_id: [agent.serving_pid()]})
            assert "my tree is a rowan" in str(agent.prompt("which tree?").messages)
            agent.quit()
        finally:
            for terminal in terminals:
                terminal.end()
        assert driver.session_ids_on_disk() == ids

    # --- refusals: the reason is said, and nothing on disk changes

    @pytest.mark.parametrize(
        ("name", "code", "said"),
        [
            ("../x", 1, "identity_invalid"),
            ("-rf", 2, ""),
            ("/abs/path", 1, "identity_invalid"),
            ("00000000-aaaa-4bbb-8ccc-dddddddddddd", 4, "no session named"),
            ("$(id)", 1, "identity_invalid"),
        ],
    )
    def test_a_name_that_is_nobodys_is_refused(
        self, driver: Driver, bare: Corral, name: str, code: int, said: str
    ) -> None:
        before = tree(driver.home.data)
        done = bare.run("resume", name)
        assert done.returncode == code and said in done.stderr
        assert tree(driver.home.data) == before

    def test_a_missing_directory_or_program_is_refused(self, driver: Driver, corral: Corral) -> None:
        place = driver.home.another_work_dir("gone")
        driver.print_run("hello poplar", work_dir=place)
        session_id = find_session(driver, "hello poplar")
        before = tree(driver.home.data)
        moved = place.rename(place.with_name("moved"))
        done = corral.run("resume", session_id)
        assert done.returncode == 1 and "work_dir_missing" in done.stderr and str(place) in done.stderr
        assert tree(driver.home.data) == before
        moved.rename(place)
        env = {**driver.home.env, "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [*COMMAND, "resume", session_id], env=env, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 1 and "provider_missing" in done.stderr
        assert tree(driver.home.data) == before
        assert corral.json("show", session_id)["session"]["restore"]["kind"] == "resume"
