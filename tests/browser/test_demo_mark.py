"""A page that shows a demonstration says so, wherever one is in it; any other page does not."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from corral.machine.places import DEMO_VARIABLE


def test_the_page_of_a_demonstration_says_that_nothing_in_it_is_the_persons_own(site, visit):
    site.env[DEMO_VARIABLE] = str(site.root)
    site.run_detached()
    link = site.start()
    wide = visit(link).is_ready()
    wide.shows("session ")
    mark = wide.page.locator(".sidebar header").get_by_title("a throw-away home: nothing here is yours")
    expect(mark).to_be_visible()
    expect(wide.page).to_have_title(re.compile("corral demo"))
    phone = visit(site.link(), viewport={"width": 390, "height": 780}).is_ready()
    expect(phone.page.get_by_title("a throw-away home").locator("visible=true")).to_have_count(1)
    phone.page.locator(".sidebar button.row").first.click()
    phone.shows("session ")
    expect(phone.page.get_by_title("a throw-away home").locator("visible=true")).to_have_count(1)


def test_the_page_of_a_persons_own_sessions_says_nothing_of_a_demonstration(site, visit):
    site.write_session(1, title="Finished long ago")
    seen = visit(site.start()).is_ready()
    expect(seen.page).to_have_title(re.compile("corral"))
    expect(seen.page.get_by_text("demo")).to_have_count(0)
    assert "demo" not in seen.page.title()
