"""kimi-code 2.1.0, when evidence breaks."""

from __future__ import annotations

import signal

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.evidence_scenarios import DirectoryReachContract, EvidenceContract
from tests.contract.steps import find_session, kill_serving

BAD_ENTRIES = {
    "unknown field": 'event = "Stop"\ncommand = "true"\nflavour = "sour"\n',
    "timeout 900": 'event = "Stop"\ncommand = "true"\ntimeout = 900\n',
    "unknown event": 'event = "Lunch"\ncommand = "true"\n',
}


class TestKimiCode(EvidenceContract, DirectoryReachContract):
    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code

    def test_one_bad_entry_silences_all_hooks(self, driver: KimiCode, corral: Corral) -> None:
        driver.print_run("hello quince")
        session_id = find_session(driver, "hello quince")
        config = driver.home.data / "config.toml"
        good = config.read_text()
        for fault, entry in BAD_ENTRIES.items():
            config.write_text(f"{good}\n[[hooks]]\n{entry}")
            status = corral.run("hooks", "status", driver.name)
            assert status.returncode == 1 and "broken" in status.stdout, status.stdout
            assert "kimi-code rejects hooks entry 4" in status.stdout and "so none runs" in status.stdout
            assert fault.split()[0] in status.stdout
            again = corral.run("hooks", "install", driver.name)
            assert again.returncode == 1 and "rejects hooks entry 4" in again.stderr
            with driver.start(resume=session_id) as agent:
                agent.wait_ready()
                agent.prompt("still here?")
                pid = agent.serving_pid()
                survey = corral.ps()
                assert [one["pid"] for one in survey["unattributed"]] == [pid], fault
                assert "rejects hooks entry 4" in survey["unattributed"][0]["advice"]
                assert [(row["state"], row["maybe_pids"]) for row in survey["sessions"]] == [("unknown", [pid])]
                refused = corral.run("resume", session_id)
                assert refused.returncode == 1 and "maybe_open" in refused.stderr
                agent.quit()
            assert corral.states() == {session_id: "idle"}

    @pytest.mark.parametrize("how", ["the program is emptied", "an entry is given a matcher"])
    def test_hooks_that_do_not_run_leave_no_agent_unseen(self, driver: KimiCode, corral: Corral, how: str) -> None:
        """Nothing is missing and nothing is rejected, and yet it does not report the session that it resumes."""
        driver.print_run("hello rowan")
        session_id = find_session(driver, "hello rowan")
        if how == "the program is emptied":
            (program,) = driver.home.root.rglob("corral-hook.py")
            program.write_bytes(b"")
        else:
            config = driver.home.data / "config.toml"
            text = config.read_text()
            for event in ("SessionStart", "SessionHeartbeat"):
                text = text.replace(f'event = "{event}"', f'event = "{event}"\nmatcher = "startup"')
            config.write_text(text)
        with driver.start(resume=session_id) as agent:
            agent.wait_ready()
            pid = agent.serving_pid()
            survey = corral.ps()
            assert [(row["state"], row["maybe_pids"]) for row in survey["sessions"]] == [("unknown", [pid])]
            assert [(one["pid"], one["advice"]) for one in survey["unattributed"]] == [
                (pid, "corral hooks install kimi-code")
            ]
            refused = corral.run("resume", session_id)
            assert refused.returncode == 1 and "maybe_open" in refused.stderr
            agent.quit()
        corral.install_hooks()
        assert corral.states() == {session_id: "idle"}

    def test_what_is_written_after_its_process_was_seen_dead_is_somebody_s(
        self, driver: KimiCode, corral: Corral
    ) -> None:
        """A claim that a killed process left behind explains nothing that was written since its death was seen."""
        with driver.start() as agent:
            killed, _ = self._begin(driver, corral, agent, "the killed one says acacia")
            kill_serving(agent, signal.SIGKILL)
        assert corral.states() == {killed: "idle"}
        with driver.start() as agent:
            other, pid = self._begin(driver, corral, agent, "the other one says birch")
            (program,) = driver.home.root.rglob("corral-hook.py")
            away = program.parent.rename(program.parent.with_name("away"))  # no file in it tells afterwards
            agent.switch_to(killed)
            agent.prompt("again here says cherry")
            away.rename(program.parent)
            rows = corral.rows()
            assert (rows[killed]["state"], rows[other]["state"]) == ("unknown", "unknown"), rows
            assert pid in rows[killed]["maybe_pids"]
            agent.quit()
