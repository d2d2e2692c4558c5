"""Hostile text on the page: it is a view like the others, and nothing turns its text around."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page

from tests.browser.seen import Seen
from tests.integration.server.serving import Serving
from tests.integration.views.test_hostile_text import UNSAFE, World

SHOWN = """() => [document.title, document.documentElement.innerText,
    ...[...document.querySelectorAll("*")].flatMap((one) => [...one.attributes].map((two) => two.value)),
    ...[...document.querySelectorAll("input, textarea")].map((one) => one.value)].join("\\n")"""
"""All that is to be read on it, also by a screen reader."""


@pytest.fixture
def hostile(tmp_path):
    world = World(tmp_path)
    serving = Serving(world)
    yield serving
    serving.kill()
    world.end()


def test_no_place_of_the_page_shows_hostile_text_as_it_is(hostile, visit):
    seen: Seen = visit(hostile.link).is_ready()
    rows = hostile.ask("GET", "/api/sessions").body["sessions"]
    of_each = {
        (row["provider"], row["state"]): row["ref"] for row in rows if row["home"].startswith(str(hostile.world.root))
    }
    tabs = [row["tab"] for row in hostile.ask("GET", "/api/tabs").body["tabs"]]
    places = ["", "usage", *(f"tab/{one}" for one in tabs), *(f"session/{one}" for one in of_each.values())]
    assert len(of_each) >= 5 and tabs
    hostile_ones = 0
    for place in places:
        seen.page.goto(f"{hostile.origin}/#/{place}")
        hostile_ones += look_at(seen.page, place)
        know = seen.page.get_by_role("button", name=re.compile("How do you know"))
        if know.count():
            know.first.click()
            look_at(seen.page, f"{place}, how corral knows")
            seen.page.keyboard.press("Escape")
    assert hostile_ones == len(places), "it was shown"


def look_at(page: Page, place: str) -> bool:
    """Whether something hostile is there, made harmless."""
    page.wait_for_timeout(700)
    shown = page.evaluate(SHOWN)
    found = re.search(UNSAFE.pattern.replace("\x00-\x09", "\x00-\x08"), shown)  # a table has tabs
    assert found is None, (place, ascii(shown[max(0, found.start() - 80) : found.end() + 80]))
    return "INJECTED" in shown
