"""A terminal in the page: what is typed arrives, what is printed shows, and both survive reloads and restarts."""

from __future__ import annotations

import re
import signal
import subprocess
import sys

from playwright.sync_api import Locator, expect

from corral.model.frames import Picture
from corral.terminals.client import Client
from corral.terminals.start import start_terminal
from tests.browser.chromium import FLAGS, WEBGL, find_chromium
from tests.browser.seen import Seen
from tests.browser.site import Site
from tests.integration.terminals.held import ENV, Viewing, wait_until

WIDE = "中文字 한글 😀 é"


def open_terminal(site: Site, visit) -> tuple[str, Seen]:
    tab = site.run_detached()
    seen = visit(site.start()).is_ready()
    seen.shows("session ")
    seen.focus()
    return tab, seen


def test_the_link_logs_in_once_and_leaves_no_code_in_the_address(site, visit):
    link = site.start()
    seen = visit(link).is_ready()
    assert "code" not in seen.page.url
    other = visit(link)
    expect(other.page.get_by_role("alert")).to_be_visible()
    expect(other.page.get_by_text("corral url")).to_be_visible()
    other.page.get_by_label("Address or code").fill(site.link())
    other.click("Log in")
    other.is_ready()
    seen.page.reload()
    seen.is_ready()
    assert seen.blocked() == [] == other.blocked()


def test_what_is_typed_arrives_and_what_is_answered_shows(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types("hello")
    seen.shows("echo #1: hello")
    assert seen.blocked() == []


def test_wide_characters_take_two_cells_and_arrive_whole(site, visit):
    _, seen = open_terminal(site, visit)
    seen.page.keyboard.insert_text(f"{WIDE}|")
    seen.page.keyboard.press("Enter")
    seen.shows(f"echo #1: {WIDE}|")
    widths = seen.page.evaluate(
        """() => { const spans = [...document.querySelectorAll('.xterm-rows span')];
        const cell = spans.find(s => s.textContent.startsWith('session')).getBoundingClientRect().width
            / spans.find(s => s.textContent.startsWith('session')).textContent.length;
        return spans.filter(s => s.textContent === '中').map(s => Math.round(s.getBoundingClientRect().width / cell)); }"""
    )
    assert set(widths) <= {2}


def test_colours_are_shown_under_the_strict_policy(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types(r'/print "\u001b[38;2;120;0;60mtrue\u001b[0m \u001b[31mred\u001b[0m \u001b[1mbold\u001b[0m"')
    seen.shows("true red bold")
    colour = seen.page.evaluate(
        """() => getComputedStyle([...document.querySelectorAll('.xterm-rows span')]
        .findLast((span) => span.textContent === 'true')).color"""
    )
    assert colour == "rgb(120, 0, 60)"
    assert seen.blocked() == []


def test_the_terminal_follows_the_window(site, visit):
    tab, seen = open_terminal(site, visit)

    def size() -> tuple[int, int]:
        return next((one["columns"], one["rows"]) for one in site.tabs() if one["tab"] == tab)

    # Asked of the program itself: its terminal has the size of what is shown.
    seen.types('/print "wide"')
    seen.shows("wide")
    rows_before = len(seen.page.locator(".xterm-rows > div").all())
    seen.page.set_viewport_size({"width": 900, "height": 500})
    wait_until(lambda: len(seen.page.locator(".xterm-rows > div").all()) < rows_before, "fewer rows")
    pid = next(one["pid"] for one in site.tabs() if one["tab"] == tab)
    wait_until(
        lambda: terminal_rows(pid) == seen.page.locator(".xterm-rows > div").count() < rows_before,
        "the program's terminal has as many",
    )
    assert size()[0] > 0


def terminal_rows(pid: int) -> int:
    """Of the terminal that a process has as its input, asked of the kernel."""
    import fcntl
    import struct
    import termios

    with open(f"/proc/{pid}/fd/0", "rb", buffering=0) as terminal:
        rows, *_ = struct.unpack("HHHH", fcntl.ioctl(terminal, termios.TIOCGWINSZ, b"\0" * 8))
    return rows


def test_vim_is_shown_as_it_is_after_windows_of_other_sizes(site, visit, tmp_path):
    text = tmp_path / "text"
    text.write_text("".join(f"line {n} of the file\n" for n in range(1, 200)))
    directory = str(site.state / "terminals")
    vim = ["/usr/bin/vim", "-u", "NONE", "-N", str(text)]
    tab = start_terminal(directory, vim, cwd="/", env=ENV, columns=120, rows=30).tab
    for size, keys in (((120, 30), b"\x06\x05"), ((90, 20), b"\x04jj"), ((90, 20), b"gg")):
        with Viewing(Client(directory, tab)) as window:
            window.client.attach(None, *size, picture=True)
            window.wait(lambda window=window: window.last(Picture) or window.output, "what vim shows")
            window.client.type(keys)
            window.wait_more(1)
    seen = visit(site.start()).is_ready()
    seen.shows("line 19 of the file")
    rows = seen.page.locator(".xterm-rows > div")
    expect(rows.first).to_have_text(re.compile(r"line 1 of the file\s*"))
    shown = [row.strip() for row in rows.all_inner_texts()]
    assert shown[:-1] == [f"line {n} of the file" for n in range(1, len(shown))]
    assert len(shown) != 20
    expect(rows.first.locator(".xterm-cursor")).to_have_count(1)


SAY_IN_PIECES = """
import os, tty
tty.setraw(0)
for piece in (b"ready a\\xe2\\x80", b"\\x94b \\xe2", b"\\x80\\xa6c"):
    os.write(1, piece)
    os.read(0, 9)
"""


def test_a_character_that_comes_in_two_pieces_is_shown(site, visit):
    words = [sys.executable, "-c", SAY_IN_PIECES]
    start_terminal(str(site.state / "terminals"), words, cwd="/", env=ENV, columns=80, rows=24)
    seen = visit(site.start()).is_ready()
    seen.shows("ready a")
    seen.focus()
    seen.page.keyboard.press("Enter")
    seen.shows("—")
    seen.page.keyboard.press("Enter")
    seen.shows("…c")


def test_a_reload_in_mid_output_loses_and_doubles_nothing(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types("/flood 20000")
    seen.shows(re.compile(r"line \d{2,} of 20000"))
    seen.page.reload()
    seen.is_ready()
    seen.shows("line 20000 of 20000")
    numbers = [int(number) for number in re.findall(r"line (\d+) of 20000", seen.text())]
    assert numbers == list(range(20001 - len(numbers), 20001))
    seen.focus()
    seen.types("still here")
    seen.shows("echo #1: still here")


def test_two_browsers_see_and_type_the_same(site, visit):
    _, one = open_terminal(site, visit)
    two = visit(site.link()).is_ready()
    two.shows("session ")
    one.types("from one")
    two.shows("echo #1: from one")
    two.focus()
    two.types("from two")
    one.shows("echo #2: from two")
    assert one.text().count("echo #1") == 1


def test_a_killed_server_comes_back_with_the_same_bytes_and_what_was_typed_meanwhile(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types("before")
    seen.shows("echo #1: before")
    site.stop(signal.SIGKILL)
    expect(seen.page.get_by_text("No connection to this terminal")).to_be_visible()
    seen.types("meanwhile")
    expect(seen.page.get_by_text("typed since are kept")).to_be_visible()
    site.start()
    seen.shows("echo #2: meanwhile")
    text = seen.text()
    assert text.count("echo #1: before") == 1, text
    expect(seen.page.get_by_text("No connection to this terminal")).to_be_hidden()
    seen.types("after")
    seen.shows("echo #3: after")
    assert seen.blocked() == []


def test_what_the_pointer_and_the_focus_do_without_a_connection_is_not_kept_as_if_it_were_typed(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types(r'/print "\u001b[?1004h\u001b[?1002h\u001b[?1006hreporting"')
    seen.shows('reporting"reporting')
    site.stop()
    expect(seen.page.get_by_text("No connection to this terminal")).to_be_visible()
    seen.focus()
    seen.page.locator("#search").focus()
    seen.focus()
    seen.page.keyboard.type("abc")
    expect(seen.page.get_by_text(re.compile(r"\b3 characters typed since are kept"))).to_be_visible()


def test_what_was_typed_for_a_terminal_that_was_replaced_is_not_sent_unasked(site, visit):
    """T41 in the page: its tab has another terminal when it comes back; the old screen is not that one's past."""
    tab, seen = open_terminal(site, visit)
    seen.types("before")
    seen.shows("echo #1: before")
    known = site.tab(tab)["session"]
    session, (old,) = known["session_id"], known["pids"]
    site.stop(signal.SIGKILL)
    expect(seen.page.get_by_text("No connection to this terminal")).to_be_visible()
    seen.types("meanwhile")
    expect(seen.page.get_by_text("typed since are kept")).to_be_visible()
    site.kill_holders()
    script = (
        "import sys\nfrom corral.tabs.restore import Restorer\n"
        "Restorer().open_tab(sys.argv[1], size=(80, 24), anyway=False, agree=lambda question: False, last=None)\n"
    )
    subprocess.run([sys.executable, "-c", script, tab], env=site.env, check=True, timeout=60)
    wait_until(lambda: (site.tab(tab)["session"] or {}).get("state") == "live", "the tab's return")
    site.start()
    expect(seen.page.get_by_role("button", name="Drop")).to_be_visible()
    (new,) = site.tab(tab)["session"]["pids"]
    seen.shows(f"session {session} pid {new}")
    assert not re.search(rf"\bpid {old}\b", seen.text()), "the old terminal's screen is still there"
    seen.click("Drop")
    seen.focus()
    seen.types("after")
    seen.shows("echo #2: after")
    assert "meanwhile" not in seen.text()


def test_a_lost_network_comes_back_by_itself(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types("one")
    seen.shows("echo #1: one")
    seen.context.set_offline(True)
    site.stop(signal.SIGTERM)
    expect(seen.page.locator(".sidebar").get_by_text("No connection to the server")).to_be_visible()
    site.start()
    seen.context.set_offline(False)
    expect(seen.page.locator(".sidebar").get_by_text("No connection to the server")).to_be_hidden()
    seen.types("two")
    seen.shows("echo #2: two")


def test_a_program_may_not_read_the_clipboard_and_asks_to_write_it(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types(r'/print "\u001b]52;c;?\u0007asked"')
    seen.shows("asked")
    seen.types(r'/print "\u001b]52;c;aGVsbG8=\u0007wished"')
    expect(seen.page.get_by_text("wants to put 5 characters on your clipboard")).to_be_visible()
    seen.context.grant_permissions(["clipboard-read", "clipboard-write"])
    seen.click("Allow once")
    wait_until(lambda: seen.page.evaluate("navigator.clipboard.readText()") == "hello", "the text on the clipboard")
    seen.focus()
    seen.types("nothing was typed by the terminal")
    seen.shows("echo #1: nothing was typed by the terminal")


def test_a_reload_answers_no_query_of_the_past(site, visit):
    _, seen = open_terminal(site, visit)
    seen.types(r'/print "\u001b[c\u001b[6n\u001b]11;?\u0007\u001bP$qm\u001b\\asked"')
    seen.shows("1$r0m")
    # The terminal answered once, as the program wanted: the answers stand in its input. Take them out of the way.
    seen.page.keyboard.press("Enter")
    seen.shows(re.compile(r"echo #1|unknown command"))
    turns = len(re.findall(r"echo #", seen.text()))
    seen.page.reload()
    seen.is_ready()
    seen.shows("asked")
    seen.focus()
    seen.types("clean")
    seen.shows(re.compile(rf"echo #{turns + 1}: clean"))


def link_row(seen: Seen, name: str) -> Locator:
    return seen.page.locator(".xterm-rows > div", has_text=re.compile(f"^press-{name}"))


def test_links_lead_to_the_web_only(site, visit):
    _, seen = open_terminal(site, visit)
    for address in ("https://example.com/", "javascript:alert(1)", "file:///etc/passwd"):
        seen.types(rf'/print "\u001b]8;;{address}\u001b\\press-{address[:4]}\u001b]8;;\u001b\\"')
        expect(link_row(seen, address[:4])).to_be_visible()  # not only what was typed: the next line would mix with it
    opened: list[str] = []
    seen.context.on("page", lambda page: opened.append(page.url))
    seen.context.route(re.compile("example.com"), lambda route: route.fulfill(body="there"))
    for name in ("java", "file", "http"):
        box = link_row(seen, name).bounding_box()
        assert box is not None
        seen.page.mouse.move(box["x"] + 12, box["y"] + box["height"] / 2)
        seen.page.mouse.click(box["x"] + 12, box["y"] + box["height"] / 2)
    wait_until(lambda: seen.page.evaluate("1") and opened, "the link to open")
    (there,) = seen.context.pages[1:]
    there.wait_for_url("https://example.com/")


def test_it_draws_with_webgl_where_there_is_webgl(site, visit, chromium):
    site.run_detached()
    browser = chromium.browser_type.launch(executable_path=find_chromium(), args=[*FLAGS, *WEBGL])
    try:
        seen = visit(site.start(), browser=browser).is_ready()
        expect(seen.page.locator(".xterm-screen canvas").first).to_be_visible()
        expect(seen.page.locator(".xterm-rows")).to_have_count(0)
        assert seen.blocked() == []
        seen.context.close()
    finally:
        browser.close()
