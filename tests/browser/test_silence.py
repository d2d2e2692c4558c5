"""A server that hangs: the page says that what it shows is old, and since when; and comes back with the server."""

from __future__ import annotations

import re
import signal

from playwright.sync_api import expect

OLD = re.compile(r"No word from corral for\s+\d+ s")
SOON_S = 30
"""It is noticed after about five seconds; the rest is for a busy machine."""


def test_a_server_that_hangs_is_noticed_and_its_age_counts(site, visit):
    site.write_session(1, title="Half done", unfinished=True)
    seen = visit(site.start()).is_ready()
    row = seen.row("Half done")
    expect(row).to_be_visible()
    old = seen.page.locator(".sidebar .old")
    expect(old).to_have_count(0)
    assert site.server is not None
    site.server.send_signal(signal.SIGSTOP)
    try:
        expect(old).to_have_text(OLD)
        told = old.inner_text()
        assert int(re.findall(r"\d+", told)[0]) < SOON_S, told
        expect(old).not_to_have_text(told)  # it counts
        expect(old).to_have_text(OLD)
        expect(row).to_be_visible()  # what was known is still shown
    finally:
        site.server.send_signal(signal.SIGCONT)
    expect(old).to_have_count(0)
    site.write_session(2, title="Came after", unfinished=True)
    expect(seen.row("Came after")).to_be_visible()


def test_a_long_hang_and_a_quiet_minute_do_no_harm(site, visit):
    seen = visit(site.start()).is_ready()
    old = seen.page.locator(".sidebar .old")
    seen.page.wait_for_timeout(12_000)  # nothing happens but beats
    expect(old).to_have_count(0)
    assert site.server is not None
    site.server.send_signal(signal.SIGSTOP)
    try:
        expect(old).to_have_text(re.compile(r"for\s+3[1-9] s"))  # long enough that it asks for everything once more
    finally:
        site.server.send_signal(signal.SIGCONT)
    expect(old).to_have_count(0)
    site.write_session(2, title="Came after", unfinished=True)
    expect(seen.row("Came after")).to_be_visible()


def test_on_a_phone_it_is_said_beside_the_terminal_too(site, visit):
    site.run_detached()
    size = {"width": 390, "height": 844}
    seen = visit(site.start(), has_touch=True, is_mobile=True, screen=size, viewport=size).is_ready()
    seen.page.locator(".sidebar button.row").first.tap()
    seen.shows("session ")
    assert site.server is not None
    site.server.send_signal(signal.SIGSTOP)
    try:
        expect(seen.page.locator("main .old")).to_have_text(OLD)
        expect(seen.page.locator("main .old")).to_be_in_viewport(ratio=1)
    finally:
        site.server.send_signal(signal.SIGCONT)
    expect(seen.page.locator("main .old")).to_have_count(0)
