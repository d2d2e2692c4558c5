"""A browser as a person sees it: what the page shows, what they type, and what the browser complained of."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import BrowserContext, Locator, Page, expect

SECONDS = 60
WATCH = """
window.blocked = [];
document.addEventListener('securitypolicyviolation', (event) =>
    window.blocked.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}:${event.lineNumber}`));
"""


class Seen:
    """One page in a browser of its own."""

    def __init__(self, context: BrowserContext, link: str) -> None:
        context.set_default_timeout(SECONDS * 1000)
        context.add_init_script(WATCH)
        self.context = context
        self.page: Page = context.new_page()
        self.complaints: list[str] = []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda message: self._hear(message.type, message.text))
        self.page.goto(link)

    def _hear(self, kind: str, text: str) -> None:
        # A request that fails because the server is down is what some tests are about; all else is a fault.
        if kind == "error" and not re.search(r"ERR_CONNECTION|Failed to load resource|WebSocket connection", text):
            self.complaints.append(text)

    def blocked(self) -> list[str]:
        return self.page.evaluate("window.blocked")

    @property
    def screen(self) -> Locator:
        return self.page.locator(".xterm-rows")

    def text(self) -> str:
        """What the terminal shows, line by line."""
        return "\n".join(self.page.locator(".xterm-rows > div").all_inner_texts()).replace("\xa0", " ")

    def shows(self, words: str | re.Pattern[str]) -> None:
        """Waits until the terminal shows them."""
        expect(self.screen).to_contain_text(words, timeout=SECONDS * 1000)

    def focus(self) -> None:
        self.page.locator(".xterm-screen").click()

    def types(self, words: str) -> None:
        self.page.keyboard.type(words)
        self.page.keyboard.press("Enter")

    def row(self, title: str) -> Locator:
        return self.page.locator(".sidebar button.row", has_text=title)

    def tab(self, title: str) -> Locator:
        return self.page.get_by_role("tab", name=title)

    def click(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).click()

    def is_ready(self) -> Seen:
        expect(self.page.get_by_role("navigation", name="Sessions")).to_be_visible()
        return self

    def picture(self, path: Path) -> None:
        self.page.screenshot(path=str(path))
