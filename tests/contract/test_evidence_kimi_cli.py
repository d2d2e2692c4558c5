"""kimi-cli 1.51.0, when evidence breaks."""

from __future__ import annotations

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.evidence_scenarios import DirectoryReachContract, EvidenceContract
from tests.contract.steps import find_session


class TestKimiCli(EvidenceContract, DirectoryReachContract):
    tells_until_it_switches = True

    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli

    def test_a_work_dir_given_by_option_is_within_reach_also_through_a_link(
        self, driver: KimiCli, bare: Corral
    ) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("here says yarrow")
        here = find_session(driver, "here says yarrow")
        link = driver.home.root / "link"
        link.symlink_to(there)
        with driver.start(args=("-w", str(link))) as agent:
            agent.wait_ready()
            agent.prompt("the first says zinnia")
            first = find_session(driver, "the first says zinnia")
            agent.new_session()
            agent.prompt("the second says aster")
            states = bare.states()
            assert (states[first], states[find_session(driver, "the second says aster")]) == ("unknown", "unknown")
            assert states[here] == "idle"
            agent.quit()
