"""The sidebar and what stands in the place of a terminal: true signs, calm order, plain refusals."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from tests.browser.site import Site
from tests.integration.terminals.held import wait_until
from tests.providers.qwen_support import NEW_ID, record

HOSTILE = [
    "<script>window.ran = 1</script>",
    "<img src=x onerror='window.ran = 1'>",
    "<svg onload=window.ran=1>",
    '"><script>window.ran=1</script>',
    "'-window.ran=1-'",
    "javascript:window.ran=1",
    "{@html '<b>bold</b>'}",
    "{{constructor.constructor('window.ran=1')()}}",
    "${window.ran=1}",
    "</title><script>window.ran=1</script>",
    "</style><script>window.ran=1</script>",
    "<iframe srcdoc='<script>parent.ran=1</script>'></iframe>",
    "<a href='javascript:window.ran=1'>press</a>",
    "<style>body{display:none}</style>",
    "<base href='http://192.0.2.1/'>",
    "<meta http-equiv=refresh content='0;url=http://192.0.2.1/'>",
    "<form action=http://192.0.2.1/><input name=a>",
    "<object data='javascript:window.ran=1'></object>",
    "<math><mtext><script>window.ran=1</script></mtext></math>",
    "<details open ontoggle=window.ran=1>",
    "<body onload=window.ran=1>",
    "<input autofocus onfocus=window.ran=1>",
    "<template><script>window.ran=1</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.ran=1>'>",
    "<!--<img src='--><img src=x onerror=window.ran=1>'>",
    "&lt;script&gt;window.ran=1&lt;/script&gt;",
    "&#60;script&#62;window.ran=1&#60;/script&#62;",
    "%3Cscript%3Ewindow.ran=1%3C/script%3E",
    "\\u003cscript\\u003ewindow.ran=1\\u003c/script\\u003e",
    "<scr<script>ipt>window.ran=1</scr</script>ipt>",
    "<IMG SRC=`javascript:window.ran=1`>",
    "<img src='data:text/html,<script>window.ran=1</script>'>",
    "data:text/html,<script>parent.ran=1</script>",
    "<link rel=stylesheet href=http://192.0.2.1/x.css>",
    "<video><source onerror=window.ran=1></video>",
    "<audio src=x onerror=window.ran=1>",
    "<marquee onstart=window.ran=1>x</marquee>",
    "<button onclick=window.ran=1>press</button>",
    "<textarea></textarea><script>window.ran=1</script>",
    "<select><option><script>window.ran=1</script>",
    "<xss style='x:expression(window.ran=1)'>",
    "__proto__",
    "constructor",
    "[object Object]",
    "-->",
    "]]><script>window.ran=1</script>",
    "<?xml version='1.0'?><x/>",
    "' onmouseover='window.ran=1",
    '" onfocus="window.ran=1" autofocus="',
    "‮gpj.exe",
]


def test_the_sidebar_says_who_needs_you_who_lives_and_what_was_lost(site, visit):
    site.write_session(1, title="Finished long ago")
    site.write_session(2, title="Migrate to v2", unfinished=True, folder="api")
    site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    seen.focus()
    seen.types("/ask Shall I run npm test?")
    seen.shows("? Shall I")
    needs = seen.page.get_by_role("region", name="Needs you")
    expect(needs.locator("button.row")).to_have_count(2)
    expect(needs).to_contain_text("waits for: Shall I run npm test?")
    expect(needs).to_contain_text(re.compile(r"waiting \d+ s"))
    expect(needs).to_contain_text("was asked: run the migration")
    expect(needs).to_contain_text(re.compile(r"lost [^·]*\d\d:\d\d\s+\d+ tok"))
    expect(seen.page.locator(".counts")).to_contain_text(re.compile(r"1\s+waiting.*1 live.*1 lost", re.S))
    expect(seen.page).to_have_title(re.compile(r"^\(2\)"))
    expect(seen.row("Finished long ago")).to_have_count(0)
    seen.click("1 idle")
    expect(seen.row("Finished long ago")).to_be_visible()
    seen.focus()
    seen.types("yes")
    seen.shows("you said: yes")
    expect(needs.locator("button.row")).to_have_count(1)


def test_a_new_session_appears_by_itself(site, visit):
    seen = visit(site.start()).is_ready()
    expect(seen.page.get_by_text("No sessions yet")).to_be_visible()
    expect(seen.page.get_by_text("corral demo")).to_be_visible()
    site.write_session(7, title="Came later", unfinished=True)
    expect(seen.row("Came later")).to_be_visible()


def test_fifty_hostile_titles_are_text(site, visit):
    assert len(set(HOSTILE)) == 50
    for number, title in enumerate(HOSTILE):
        site.write_session(number, title=title, unfinished=True)
    seen = visit(site.start()).is_ready()
    rows = seen.page.locator(".sidebar button.row")
    expect(rows).to_have_count(50)
    shown = set(seen.page.locator(".sidebar .title").all_inner_texts())
    known = {session["title"] for session in site.api("sessions")["sessions"]}
    assert shown == {" ".join(title.split()) for title in known}
    assert "<script>window.ran = 1</script>" in shown
    for number in (0, 1, 11):
        seen.row(HOSTILE[number]).first.click()
        expect(seen.page.locator(".panel h2")).to_have_text(HOSTILE[number])
        expect(seen.page).to_have_title(re.compile(re.escape(HOSTILE[number])))
    assert seen.page.evaluate("window.ran") is None
    assert seen.page.locator("#app script, #app iframe, #app object, #app style").count() == 0
    assert seen.blocked() == []


def test_nothing_moves_while_the_pointer_is_on_the_list(site, visit):
    for number in range(4):
        site.write_session(number, title=f"Lost {number}", unfinished=True)
    seen = visit(site.start()).is_ready()
    seen.row("Lost 2").hover()
    before = seen.row("Lost 2").bounding_box()
    site.write_session(9, title="Newest", unfinished=True)
    expect(seen.row("Newest")).to_be_visible()
    assert seen.row("Lost 2").bounding_box() == before
    assert seen.page.locator(".sidebar .title").all_inner_texts()[-1] == "Newest"
    seen.page.mouse.move(900, 400)
    wait_until(lambda: seen.page.locator(".sidebar .title").all_inner_texts()[0] == "Newest", "the newest first")


def test_search_and_filters_narrow_the_list(site, visit):
    site.write_session(1, title="Alpha", unfinished=True)
    site.write_session(2, title="Beta")
    seen = visit(site.start()).is_ready()
    seen.page.locator("body").press("/")
    seen.page.keyboard.type("beta")
    expect(seen.row("Beta")).to_be_visible()
    expect(seen.row("Alpha")).to_have_count(0)
    seen.page.keyboard.press("Escape")
    expect(seen.row("Alpha")).to_be_visible()
    seen.page.get_by_role("button", name="Filter").click()
    seen.page.get_by_role("button", name="idle", exact=True).click()
    expect(seen.row("Beta")).to_be_visible()
    expect(seen.row("Alpha")).to_have_count(0)


def test_what_is_searched_for_is_shown_also_in_a_group_that_was_opened(site, visit):
    site.write_session(1, title="Alpha")
    site.write_session(2, title="Beta")
    seen = visit(site.start()).is_ready()
    seen.click("2 idle")
    expect(seen.row("Alpha")).to_be_visible()
    seen.page.locator("#search").fill("beta")
    expect(seen.row("Beta")).to_be_visible()
    seen.page.locator("#search").fill("")
    expect(seen.row("Alpha")).to_be_visible()


def test_a_lost_session_shows_what_was_left_and_is_resumed_or_dismissed(site, visit):
    site.write_session(1, title="Half done", unfinished=True)
    site.write_session(2, title="Never mind", unfinished=True)
    seen = visit(site.start()).is_ready()
    seen.row("Never mind").click()
    expect(seen.page.locator("blockquote")).to_have_text("run the migration")
    seen.page.keyboard.press("Control+Shift+E")
    drawer = seen.page.get_by_role("dialog", name="How do you know?")
    expect(drawer.locator("b").first).to_have_text("lost")
    seen.page.keyboard.press("Escape")
    seen.click("Dismiss")
    expect(seen.page.get_by_role("region", name="Needs you").locator("button.row")).to_have_count(1)
    seen.page.reload()
    seen.is_ready()
    expect(seen.page.get_by_role("region", name="Needs you").locator("button.row")).to_have_count(1)
    seen.row("Half done").click()
    seen.click("Resume")
    agree(seen)
    seen.shows("session 00000000-0000-4000-8000-000000000001")


def agree(seen) -> None:
    """A directory in which corral has started nothing before asks first."""
    expect(seen.page.get_by_text("ask_trust")).to_be_visible()
    seen.click("Open it there")


def test_a_refusal_says_what_is_so_and_why(site, visit):
    site.write_session(1, title="No place", folder="gone")
    (site.root / "gone").rmdir()
    seen = visit(site.start()).is_ready()
    seen.click("1 idle")
    seen.row("No place").click()
    refusal = seen.page.get_by_role("alert")
    expect(refusal).to_be_visible()
    expect(seen.page.locator(".reason")).to_have_text("work_dir_missing")
    assert site.tabs() == []


def test_who_claims_a_session_elsewhere_and_the_recorded_branch_are_named(site, visit):
    one = site.write_session(1, title="On the other machine")
    claim = {"schema_version": 1, "pid": 4217, "session_id": one, "work_dir": str(site.work), "hostname": "build-host"}
    [path] = site.root.glob(f".kimi/sessions/*/{one}")
    (path / "runtime.json").write_text(json.dumps(claim | {"started_at": 1.0}))
    chats = site.root / ".qwen" / "projects" / "-work" / "chats"
    chats.mkdir(parents=True)
    (chats / f"{NEW_ID}.jsonl").write_bytes(record(text="Round once", gitBranch="fix/rounding", sessionId=NEW_ID))
    seen = visit(site.start()).is_ready()
    seen.click("1 elsewhere")
    expect(seen.row("On the other machine")).to_contain_text("kimi-cli · claimed by build-host")
    seen.row("On the other machine").click()
    expect(seen.page.locator("footer.status")).to_be_visible()
    expect(seen.page.locator("footer.status .branch")).to_have_count(0)
    seen.row("Round once").click()
    expect(seen.page.locator("footer.status .branch")).to_have_text(re.compile(r"⎇\s+branch\s+fix/rounding"))


def test_how_do_you_know_shows_each_claim(site, visit):
    site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    seen.click("How do you know?")
    drawer = seen.page.get_by_role("dialog", name="How do you know?")
    expect(drawer).to_contain_text("runtime.json")
    expect(drawer).to_contain_text("proves that it is live")
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen.click("Copy as text")
    expect(seen.page.get_by_text("Copied the evidence.")).to_be_attached()
    text = seen.page.evaluate("navigator.clipboard.readText()")
    assert "runtime.json" in text and "rule" in text
    seen.page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()


def test_usage_is_shown_with_what_is_not_known_beside_it(site, visit):
    site.write_session(1, title="Spent something")
    seen = visit(site.start()).is_ready()
    seen.page.get_by_role("button", name="Usage").click()
    expect(seen.page.get_by_role("heading", name="Usage")).to_be_visible()
    expect(seen.page.locator("table").last).to_contain_text("Spent something")
    expect(seen.page.get_by_text("Not recorded by the agents")).to_be_visible()
    expect(seen.page.locator("svg[role=img] rect").first).to_be_attached()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_and_signs_have_enough_contrast(site: Site, visit, scheme):
    site.write_session(1, title="Lost", unfinished=True)
    site.run_detached()
    seen = visit(site.start(), color_scheme=scheme).is_ready()
    seen.shows("session ")
    poor = seen.page.evaluate(CONTRAST)
    assert poor == []


CONTRAST = """() => {
  const read = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map((c) => (c /= 255) <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
      .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = read(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const element of document.querySelectorAll('.sidebar *, .bar *, .status *')) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
    if (!own || element.closest('.hidden-text') || !element.offsetParent) continue;
    const [a, b] = [light(read(getComputedStyle(element).color)), light(ground(element))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${element.textContent.trim().slice(0, 30)}: ${ratio.toFixed(2)}`);
  }
  return poor;
}"""
