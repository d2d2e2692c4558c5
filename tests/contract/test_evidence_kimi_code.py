"""kimi-code 2.1.0, when evidence breaks."""

from __future__ import annotations

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_code import KimiCode
from tests.contract.evidence_scenarios import DirectoryReachContract, EvidenceContract
from tests.contract.steps import find_session

BAD_ENTRIES = {
    "unknown field": 'event = "Stop"\ncommand = "true"\nflavour = "sour"\n',
    "timeout 900": 'event = "Stop"\ncommand = "true"\ntimeout = 900\n',
    "unknown event": 'event = "Lunch"\ncommand = "true"\n',
}


class TestKimiCode(EvidenceContract, DirectoryReachContract):
    @pytest.fixture
    def driver(self, kimi_code: KimiCode) -> KimiCode:
        return kimi_code

    @pytest.mark.parametrize("fault", BAD_ENTRIES)
    def test_one_bad_entry_silences_all_hooks(self, driver: KimiCode, corral: Corral, fault: str) -> None:
        driver.print_run("hello quince")
        session_id = find_session(driver, "hello quince")
        config = driver.home.data / "config.toml"
        config.write_text(config.read_text() + "\n[[hooks]]\n" + BAD_ENTRIES[fault])
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
            assert [one["pid"] for one in survey["unattributed"]] == [pid]
            assert "rejects hooks entry 4" in survey["unattributed"][0]["advice"]
            assert [(row["state"], row["maybe_pids"]) for row in survey["sessions"]] == [("unknown", [pid])]
            refused = corral.run("resume", session_id)
            assert refused.returncode == 1 and "maybe_open" in refused.stderr
            agent.quit()
        assert corral.states() == {session_id: "idle"}
