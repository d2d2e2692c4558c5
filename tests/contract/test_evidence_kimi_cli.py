"""kimi-cli 1.51.0, when evidence breaks."""

from __future__ import annotations

import subprocess

import pytest

from corral.machine.processes import ProcessTable
from corral.providers.kimi_cli import PROVIDER as kimi_cli
from tests.contract.corral_cli import Corral
from tests.contract.drive_kimi_cli import KimiCli
from tests.contract.driver import Driver
from tests.contract.evidence_scenarios import DirectoryReachContract, EvidenceContract
from tests.contract.steps import find_session
from tests.contract.tui import Tui


class TestKimiCli(EvidenceContract, DirectoryReachContract):
    tells_until_it_switches = True

    @pytest.fixture
    def driver(self, kimi_cli: KimiCli) -> KimiCli:
        return kimi_cli

    def _rewrite_config(self, driver: Driver, agent: Tui) -> None:
        """It does so for real, and reads it again."""
        config = driver.home.data / "config.toml"
        before = config.read_bytes()
        agent.type_line("/theme light")
        agent.wait_until(lambda: config.read_bytes() != before, "another configuration", 60)
        agent.wait_ready()

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

    def test_entries_that_were_away_while_it_moved_on(self, driver: KimiCli, corral: Corral) -> None:
        """It reads its configuration again at every switch. Afterwards all looks as before, and nothing was written.

        But it said that it left a session, and no kimi-cli is without one.
        """
        driver.print_run("the third says damson")
        third = find_session(driver, "the third says damson")
        config = driver.home.data / "config.toml"
        with driver.start() as agent:
            first, pid = self._begin(driver, corral, agent, "the first says elm")
            kept = config.read_bytes()
            config.write_bytes(kept.partition(b"[[hooks]]")[0])
            agent.switch_to(third)
            config.write_bytes(kept)
            refused = corral.run("resume", third, timeout=120)
            assert refused.returncode == 1 and "maybe_open" in refused.stderr, refused.stderr
            rows = corral.rows()
            assert (rows[third]["state"], rows[first]["state"]) == ("unknown", "unknown"), rows
            assert [one["pid"] for one in corral.ps()["unattributed"]] == [pid]
            # Its next word heals.
            fresh = self._move_on(driver, agent, "the fourth says fir")
            corral.wait_live({fresh: [pid]})
            assert corral.states()[third] == "idle"
            agent.quit()

    def test_one_that_becomes_a_web_server_has_no_session(self, driver: KimiCli, corral: Corral) -> None:
        with driver.start() as agent:
            session_id, pid = self._begin(driver, corral, agent, "the page says ginkgo")
            agent.type_line("/web")
            agent.terminal.wait_screen("Uvicorn running")
            assert corral.states() == {session_id: "idle"}
            # It stays so: that it reports no other session is no wonder.
            process = (table := ProcessTable()).find(pid)
            assert process is not None
            found = kimi_cli.recognise(process, table)
            assert found is not None and found.without_session and not found.never_reports
            agent.terminal.kill()

    def test_a_session_that_is_copied_within_its_home_is_not_open(self, driver: KimiCli, corral: Corral) -> None:
        there = driver.home.another_work_dir("there")
        driver.print_run("over there says hawthorn", work_dir=there)
        far = find_session(driver, "over there says hawthorn")
        (bucket,) = (path.parent for path in (driver.home.data / "sessions").glob(f"*/{far}"))
        with driver.start() as agent:
            session_id, pid = self._begin(driver, corral, agent, "here says ivy")
            (place,) = (driver.home.data / "sessions").glob(f"*/{session_id}")
            subprocess.run(["cp", "-a", place, bucket / session_id], check=True)
            found = {row["scope"]: (row["state"], row["pids"]) for row in corral.ps()["sessions"]}
            assert found == {place.parent.name: ("live", [pid]), bucket.name: ("idle", [])}
            agent.quit()
