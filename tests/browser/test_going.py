"""To go somewhere starts nothing, by whatever key or click; what has ended is said in words."""

from __future__ import annotations

import os
import re
import signal

from playwright.sync_api import expect

from corral.terminals.directory import list_terminals
from tests.browser.site import Site
from tests.integration.terminals.held import is_gone, kill, wait_until


def test_no_key_and_no_click_that_goes_somewhere_starts_anything(site: Site, visit):
    site.write_session(1, title="Lost with its tab", unfinished=True)
    site.write_session(2, title="Resting")
    site.start()
    ref = next(one["ref"] for one in site.api("sessions")["sessions"] if one["title"] == "Lost with its tab")
    site.post(f"sessions/{ref}/open", {"trust": True})
    wait_until(lambda: any(one["restorable"] for one in site.tabs()), "its first word")
    site.kill_holders()
    site.wait_for_tabs("gone", 1)
    asked: list[str] = []
    seen = visit(site.link()).is_ready()
    seen.page.on("request", lambda request: asked.append(f"{request.method} {request.url}"))
    expect(seen.page.locator(".counts")).to_contain_text(re.compile(r"1\s+lost"))
    back = seen.page.get_by_role("button", name="Bring it back")
    for go in (
        lambda: seen.page.keyboard.press("Alt+j"),
        lambda: seen.page.keyboard.press("Alt+1"),
        lambda: seen.page.get_by_role("tab").first.click(),
        lambda: seen.row("Lost with its tab").click(),
        lambda: seen.page.locator(".counts button").click(),
    ):
        go()
        expect(back).to_be_visible()
        seen.page.keyboard.press("/")
        seen.page.keyboard.press("Escape")
    seen.click("1 idle")
    seen.row("Resting").click()
    expect(seen.page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    seen.row("Resting").press("Enter")
    assert [one["state"] for one in site.tabs()] == ["gone"]
    assert [one for one in asked if one.startswith("POST")] == []
    seen.page.keyboard.press("Alt+1")
    expect(back).to_be_visible()
    seen.page.keyboard.press("Alt+Enter")  # an explicit wish
    site.wait_for_tabs("running", 1)


def test_how_an_agent_ended_is_said_in_words_also_when_its_terminal_is_closed(site: Site, visit):
    tab = site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    os.kill(next(one["pid"] for one in site.tabs() if one["tab"] == tab), signal.SIGHUP)
    ended = seen.page.get_by_text("Ended by signal 1 (SIGHUP): it was hung up.")
    expect(ended).to_be_visible()
    (terminal,) = list_terminals(str(site.state / "terminals"))
    if terminal.holder is not None:
        kill(terminal.holder)
        wait_until(lambda: is_gone(terminal.holder), "the end of its holder")
    seen.page.reload()
    seen.is_ready()
    seen.page.get_by_role("tab").first.click()
    expect(ended).to_be_visible()
    expect(seen.page.get_by_text("What it showed is no longer kept.")).to_be_visible()
    assert "No such file" not in seen.page.locator("body").inner_text()


def test_a_program_that_can_not_be_started_is_named_with_the_reason(site: Site, visit):
    site.write_session(1, title="Resting")
    seen = visit(site.start()).is_ready()
    site.program.write_text("#!/opt/gone/python\n")
    seen.click("1 idle")
    seen.row("Resting").click()
    seen.click("Resume")
    seen.click("Open it there")
    panel = seen.page.locator(".panel")
    expect(panel.locator("h2")).to_have_text("It did not start")
    expect(panel).to_contain_text("is a script for /opt/gone/python, which is not there")
