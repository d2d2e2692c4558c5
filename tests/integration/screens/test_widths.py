"""The holder gives every character as many columns as the page's engine does."""

from __future__ import annotations

from corral.terminals.widths import has_odd, width


def test_every_character_has_the_width_that_the_pages_engine_gives_it(xterms):
    theirs = xterms.ask(do="widths")
    printable = [code for code in range(0xA0, 0x110000) if not 0xD800 <= code < 0xE000]
    assert [code for code in printable if width(chr(code)) != int(theirs[code])] == []
    assert not has_odd("plain text, ─│┌┐ and é")
    assert has_odd("日") and has_odd("e\u0301")
