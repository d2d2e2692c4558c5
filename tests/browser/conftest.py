"""Fixtures of the browser tests: one Chromium per worker, one site per test, pages that report what the CSP blocked."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, BrowserContext, expect, sync_playwright

from tests.browser.chromium import FLAGS, PLAIN, find_chromium
from tests.browser.seen import SECONDS, Seen
from tests.browser.site import Site

expect.set_options(timeout=SECONDS * 1000)


@pytest.fixture(scope="session")
def chromium():
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=[*FLAGS, *PLAIN])
        yield browser
        browser.close()


@pytest.fixture
def site(tmp_path):
    found = Site(tmp_path)
    yield found
    found.end()


@pytest.fixture
def visit(chromium: Browser):
    """Opens links in browsers of their own; at the end nothing may have been blocked and no script may have failed."""
    contexts: list[BrowserContext] = []
    opened: list[Seen] = []

    def open_link(link: str, *, browser: Browser = chromium, **options: object) -> Seen:
        context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}} | options)
        contexts.append(context)
        seen = Seen(context, link)
        opened.append(seen)
        return seen

    yield open_link
    complaints = [complaint for seen in opened for complaint in seen.complaints]
    for context in contexts:
        context.close()
    assert complaints == []
