"""Tabs: many come back at once, each as itself; closing ends no agent; everything by keyboard; usable on a phone."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.browser.seen import Seen
from tests.browser.site import Site
from tests.browser.test_sessions import agree
from tests.integration.terminals.held import wait_until

MANY = 30
RESTORE_SECONDS = 200


def test_thirty_tabs_come_back_by_restore_all(site, visit):
    ids = [site.write_session(number, title=f"Conversation {number}") for number in range(MANY)]
    site.start()
    refs = {one["session_id"]: one["ref"] for one in site.api("sessions")["sessions"]}
    for session_id in ids:
        site.post(f"sessions/{refs[session_id]}/open", {"trust": True})
    wanted = set(refs.values())

    def missing() -> list[str]:
        named = {tab["ref"] for tab in site.tabs() if tab["restorable"]}
        return [f"{tab['state']}: {tab['live_only_reason']}" for tab in site.tabs() if tab["ref"] not in named & wanted]

    try:
        wait_until(lambda: len(site.tabs()) == MANY and not missing(), "every agent's first word", RESTORE_SECONDS)
    except TimeoutError as error:
        raise TimeoutError(f"{error}; {missing()}") from None
    site.stop()
    site.kill_holders()
    link = site.start()
    site.wait_for_tabs("gone", MANY)
    seen = visit(link).is_ready()
    seen.page.get_by_role("button", name="Restore all").click()
    expect(seen.page.get_by_role("progressbar")).to_be_visible()
    expect(seen.page.get_by_text(f"All {MANY} tabs are back.")).to_be_attached(timeout=RESTORE_SECONDS * 1000)
    site.wait_for_tabs("running", MANY)
    wait_until(lambda: set(ids) <= _served(site), "every conversation served")
    for number in (0, 17):
        seen.tab(f"Conversation {number}").first.click()
        seen.shows(f"session {ids[number]}")
    assert seen.blocked() == []


def test_a_new_tab_from_the_dialog(site, visit):
    seen = visit(site.start()).is_ready()
    seen.page.keyboard.press("Alt+t")
    dialog = seen.page.get_by_role("dialog", name="New tab")
    expect(dialog).to_contain_text("Kimi CLI")
    expect(dialog).to_contain_text("1.51.0")
    field = dialog.get_by_role("combobox")
    field.fill(str(site.root / "wor"))
    expect(dialog.get_by_role("option").filter(has_text="work")).to_be_visible()
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    expect(field).to_have_value(str(site.work))
    seen.page.keyboard.press("Enter")
    trust = dialog.get_by_role("button", name="Start it there")
    expect(trust).to_be_visible()
    expect(dialog.locator(".command")).to_have_count(0)  # what one can do is a sentence
    trust.click()
    expect(dialog.locator(".command code")).to_have_text("corral hooks install kimi-cli")
    dialog.get_by_role("button", name="Start live only").click()
    seen.shows("session ")
    seen.types("hello")
    seen.shows("echo #1: hello")


def test_a_closed_tab_leaves_its_agent_alive(site, visit):
    tab = site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    pid = next(one["pid"] for one in site.tabs() if one["tab"] == tab)
    seen.focus()
    seen.types("remember me")
    seen.shows("echo #1: remember me")
    seen.page.keyboard.press("Alt+w")
    expect(seen.page.get_by_text("lives on")).to_be_attached()
    expect(seen.page.get_by_role("tab")).to_have_count(0)
    assert site.identity(pid)
    seen.row("remember me").click()
    seen.shows("echo #1: remember me")
    assert [one["pid"] for one in site.tabs()] == [pid]


def test_everything_by_keyboard(site, visit):
    site.write_session(1, title="Lost one", unfinished=True)
    first = site.run_detached()
    second = site.run_detached()
    seen = visit(site.start()).is_ready()
    keyboard = seen.page.keyboard
    seen.shows("session ")
    ids = [site.tab(tab)["session"]["session_id"] for tab in (first, second)]
    assert len(set(ids)) == 2
    expect(seen.page.get_by_role("tab")).to_have_count(2)
    keyboard.press("Alt+2")
    expect(seen.page.get_by_role("tab").nth(1)).to_have_attribute("aria-selected", "true")
    seen.shows(f"session {ids[1]}")
    seen.types("typed in the second")
    seen.shows("echo #1: typed in the second")
    keyboard.press("Alt+1")
    expect(seen.page.get_by_role("tab").nth(0)).to_have_attribute("aria-selected", "true")
    keyboard.press("Alt+j")
    expect(seen.page.locator(".panel h2")).to_have_text("Lost one")
    keyboard.press("?")
    expect(seen.page.get_by_role("dialog", name="Keys")).to_contain_text("Alt+J")
    keyboard.press("Escape")
    keyboard.press("Control+Shift+E")
    expect(seen.page.get_by_role("dialog", name="How do you know?")).to_be_visible()
    keyboard.press("Escape")
    keyboard.press("/")
    expect(seen.page.locator("#search")).to_be_focused()
    keyboard.type("lost")
    keyboard.press("ArrowDown")
    expect(seen.row("Lost one")).to_be_focused()
    outline = seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"
    keyboard.press("Enter")
    expect(seen.page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    for _ in range(30):
        keyboard.press("Tab")
        if seen.page.evaluate("document.activeElement.textContent.trim()") == "Resume":
            break
    keyboard.press("Enter")
    expect(seen.page.get_by_text("ask_trust").or_(seen.screen)).to_be_visible()


def test_on_a_phone_the_list_is_the_start_and_a_tab_fills_the_screen(site: Site, visit):
    site.run_detached()
    size = {"width": 390, "height": 844}
    seen: Seen = visit(site.start(), has_touch=True, is_mobile=True, screen=size, viewport=size)
    seen.is_ready()
    row = seen.page.locator(".sidebar button.row").first
    expect(row).to_be_visible()
    expect(seen.page.get_by_role("tablist")).to_be_hidden()
    row.tap()
    seen.shows("session ")
    expect(seen.page.locator(".sidebar")).to_be_hidden()
    seen.page.wait_for_function("document.documentElement.scrollWidth <= innerWidth")  # once the terminal fits
    for name in ("End", "How do you know?"):
        expect(seen.page.get_by_role("button", name=name, exact=True)).to_be_in_viewport(ratio=1)
    seen.page.locator(".xterm-screen").tap()
    seen.page.keyboard.type("abc")
    seen.page.get_by_role("button", name="Ctrl", exact=True).tap()
    seen.page.keyboard.type("u")  # the kernel's line editor: forget the line
    seen.page.keyboard.type("kept")
    seen.page.get_by_role("button", name="Enter", exact=True).tap()
    seen.shows("echo #1: kept")
    seen.page.get_by_role("button", name="All sessions").tap()
    expect(row).to_be_visible()
    seen.page.go_back()
    seen.shows("echo #1: kept")
    # With a keyboard attached: the list comes first, and the very next letter is for the search.
    press = "document.activeElement.dispatchEvent(new KeyboardEvent('keydown', {code: 'Slash', altKey: true, bubbles: true}))"
    assert seen.page.evaluate(f"{press}, document.activeElement.id") == "search"


def test_every_key_of_the_row_is_within_reach_upright_and_on_its_side(site: Site, visit):
    site.run_detached()
    seen: Seen = visit(site.start(), has_touch=True, is_mobile=True, viewport={"width": 375, "height": 667})
    seen.page.locator(".sidebar button.row").first.click()
    keys = seen.page.get_by_role("toolbar", name="Keys").get_by_role("button")
    expect(keys).to_have_count(9)
    evidence = seen.page.get_by_role("button", name="How do you know?")
    for width, height in ((320, 568), (375, 667), (414, 896), (568, 320), (667, 375), (896, 414)):
        seen.page.set_viewport_size({"width": width, "height": height})
        for key in (*keys.all(), evidence):
            expect(key).to_be_in_viewport(ratio=1)


def test_an_ended_agent_is_said_and_can_be_resumed(site, visit):
    site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    seen.focus()
    seen.types("one turn")
    seen.shows("echo #1: one turn")
    seen.types("/quit")
    expect(seen.page.get_by_text("Ended with exit status 0.")).to_be_visible()
    seen.click("Resume")
    shows_its_agent(site, seen)
    seen.focus()
    seen.types("another")
    seen.shows("echo #2: another")


def test_ending_an_agent_asks_first(site, visit):
    tab = site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    pid = next(one["pid"] for one in site.tabs() if one["tab"] == tab)
    seen.click("End")
    expect(seen.page.get_by_role("dialog")).to_contain_text(f"Process {pid} is asked to hang up")
    seen.click("Leave it")
    seen.focus()
    seen.types("alive")
    seen.shows("echo #1: alive")
    seen.click("End")
    seen.click("End it")
    expect(seen.page.get_by_text(re.compile("^Ended"))).to_be_visible()
    site.wait_for_tabs("ended", 1)


def test_a_tab_whose_terminal_is_gone_comes_back_when_it_is_opened(site, visit):
    site.run_detached()
    link = site.start()
    seen = visit(link).is_ready()
    seen.shows("session ")
    seen.focus()
    seen.types("first words")
    seen.shows("echo #1: first words")
    site.kill_holders()
    expect(seen.page.get_by_role("button", name="Bring it back")).to_be_visible()
    seen.click("Bring it back")
    shows_its_agent(site, seen)
    seen.focus()
    seen.types("second words")
    seen.shows("echo #2: second words")
    wait_until(lambda: [tab["state"] for tab in site.tabs()] == ["running"], "one running tab")


def test_double_clicks_make_one_process(site, visit):
    site.write_session(1, title="Only once")
    seen = visit(site.start()).is_ready()
    other = visit(site.link()).is_ready()
    for one in (seen, other):
        one.click("1 idle")
    seen.row("Only once").dblclick()
    resume = seen.page.get_by_role("button", name="Resume", exact=True)
    expect(resume).to_be_visible()
    assert site.tabs() == []  # to look is not to start
    resume.dblclick()
    agree(seen)
    seen.shows("session 00000000-0000-4000-8000-000000000001")
    other.row("Only once").dblclick()
    other.shows("session 00000000-0000-4000-8000-000000000001")
    assert len(site.tabs()) == 1


def shows_its_agent(site: Site, seen: Seen) -> None:
    """Waits until the only tab runs and its terminal is shown: not that of the process which it had before."""
    wait_until(lambda: [tab["state"] for tab in site.tabs()] == ["running"], "one running tab")
    seen.shows(f"pid {site.tabs()[0]['pid']}")


def _served(site) -> set[str]:
    return {one["session_id"] for one in site.api("sessions")["sessions"] if one["state"] == "live"}
