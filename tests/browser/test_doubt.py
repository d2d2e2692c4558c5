"""What may be open elsewhere: the safe ways first, always about the processes of now; and no promise that is not kept."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.seen import Seen
from tests.browser.site import Site
from tests.integration.server.strays import end_stray, start_stray, write_stray
from tests.integration.terminals.held import wait_until


@pytest.fixture
def stray(site):
    started = []

    def start():
        started.append(start_stray(site))
        return started[-1]

    yield start
    for process in started:
        end_stray(process)


def open_row(seen: Seen, title: str) -> None:
    seen.click("1 unknown")
    seen.row(title).click()


def test_the_safe_ways_come_first_and_the_other_one_apart(site: Site, visit, stray):
    site.write_session(1, title="Doubtful")
    process = stray()
    seen = visit(site.start()).is_ready()
    open_row(seen, "Doubtful")
    panel = seen.page.locator(".panel")
    expect(panel.locator("h2")).to_have_text("Maybe open already")
    expect(panel).to_contain_text(f"pid {process.pid}")
    expect(panel).to_contain_text("without a terminal")
    assert "--anyway" not in panel.inner_text()
    buttons = panel.get_by_role("button").all_inner_texts()
    assert buttons[0] == "Look again" and buttons[-1] == "Open it anyway" and "Install hooks" in buttons
    expect(panel.locator(".apart").get_by_role("button", name="Open it anyway")).to_be_visible()
    seen.click("Look again")
    expect(panel.get_by_role("status")).to_contain_text("Looked")
    assert site.tabs() == []
    panel.get_by_role("button", name="Install hooks").click()
    expect(panel).to_contain_text(re.compile("restart pid", re.I))
    expect(panel.get_by_role("button", name="Install hooks")).to_have_count(0)
    end_stray(process)
    expect(panel.locator("h2")).to_have_text("Doubtful")
    expect(panel.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    assert site.tabs() == []


def test_it_goes_to_the_tab_in_which_the_process_runs(site: Site, visit):
    site.write_session(1, title="Doubtful")
    write_stray(site.program)
    done = site.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", "--", "--plain")
    assert done.returncode == 0, done
    seen = visit(site.start()).is_ready()
    open_row(seen, "Doubtful")
    seen.click("Go there")
    expect(seen.page).to_have_url(re.compile(f"#/tab/{done.stdout.strip()}$"))
    seen.shows("here")


def test_a_refusal_of_a_tab_names_the_process_of_now(site: Site, visit, stray):
    lose_tab(site)
    first = stray()
    seen = visit(site.start()).is_ready()
    seen.page.get_by_role("tab").first.click()
    panel = seen.page.locator(".panel")
    expect(panel.locator("h2")).to_have_text("Maybe open already")
    expect(panel).to_contain_text(f"pid {first.pid}")
    end_stray(first)
    back = panel.get_by_role("button", name="Bring it back")
    expect(back).to_be_visible()
    second = stray()
    expect(panel).to_contain_text(f"pid {second.pid}")
    expect(panel).not_to_contain_text(f"pid {first.pid}")
    end_stray(second)
    back.click()
    wait_until(lambda: [tab["state"] for tab in site.tabs()] == ["running"], "the tab's return")


def test_a_tab_that_can_not_come_back_promises_nothing(site: Site, visit):
    write_stray(site.program)
    done = site.corral("run", "kimi-cli", "--detach", "--yes", "--no-hooks", "--", "--plain")
    assert done.returncode == 0, done
    seen = visit(site.start()).is_ready()
    seen.page.get_by_role("tab").first.click()
    expect(seen.page.locator("footer.status")).to_contain_text("live only")
    site.kill_holders()
    panel = seen.page.locator(".panel")
    expect(panel).to_contain_text("can't be brought back")
    expect(panel).to_contain_text("only through hooks")
    assert "own identity" not in panel.inner_text()
    expect(panel.get_by_role("button", name="Bring it back")).to_have_count(0)
    expect(seen.page.get_by_role("button", name="Restore all")).to_have_count(0)
    panel.get_by_role("button", name="Close the tab").click()
    expect(seen.page.get_by_role("tab")).to_have_count(0)


def test_an_agent_that_reports_to_nobody_comes_and_goes_in_the_list(site: Site, visit, stray):
    seen = visit(site.start()).is_ready()
    for _ in range(3):
        process = stray()
        line = seen.page.get_by_text(f"pid {process.pid}: corral can't see its session")
        expect(line).to_be_visible()
        end_stray(process)
        expect(line).to_have_count(0)


def test_one_without_a_session_yet_comes_and_goes_in_the_list(site: Site, visit, stray):
    (site.root / ".kimi").mkdir()
    link = site.start()
    site.post("hooks/kimi-cli", {})
    seen = visit(link).is_ready()
    process = stray()
    line = seen.page.get_by_text(f"pid {process.pid}: no session yet")
    expect(line).to_be_visible()
    end_stray(process)
    expect(line).to_have_count(0)


def lose_tab(site: Site) -> None:
    """A tab whose agent had one turn, and whose terminal is gone."""
    site.write_session(1, title="Once here")
    site.start()
    ref = site.api("sessions")["sessions"][0]["ref"]
    tab = site.post(f"sessions/{ref}/open", {"trust": True})["tab"]
    wait_until(lambda: [one["tab"] for one in site.tabs() if one["restorable"]] == [tab], "its first word")
    site.kill_holders()
    wait_until(lambda: [one["state"] for one in site.tabs()] == ["gone"], "its end")
    site.stop()
