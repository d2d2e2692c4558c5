"""What a terminal shows after all that a program wrote: its cells, its cursor, its modes. Standard library only.

It is fed with output however that is cut, and told of every change of size where it happened. picture.py paints it.
Where terminals differ, this does as the page's engine, xterm.js, does.
"""

from __future__ import annotations

import re

from corral.terminals.attributes import PLAIN, Attributes, apply_sgr, erased
from corral.terminals.buffer import BLANK, REST, Buffer, Line, blank_line
from corral.terminals.widths import has_odd, width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_TOKEN = re.compile(
    r"([^\x00-\x1f\x7f-\x9f]+)|(\r\n)"
    r"|\x1b\[([<-?]?)([0-9;:\x00-\x17\x19\x1c-\x1f]*)([ -/]*)([@-~])"
    r"|\x1b\](?:([0-9]+);?)?([^\x07\x18\x1a\x1b]*)(?:\x07|\x1b\\|[\x18\x1a]|(?=\x1b))"
    r"|\x1b[PX^_][^\x1b\x18\x1a]*(?:\x1b\\|[\x18\x1a]|(?=\x1b))"
    r"|\x1b([ -/]*)([0-OQ-WYZ\\`-~])|([\x07-\x0f])",
)
_TEXT, _NEWLINE, _CSI, _OSC, _ESC, _CONTROL = 1, 2, 6, 8, 10, 11
_UNFINISHED = re.compile(
    rb"(?:\x1b(?:\[[0-?\x00-\x17\x19\x1c-\x1f]*[ -/]*|[ -/]+|[\]PX^_][^\x07\x18\x1a\x1b]*\x1b?)?"
    rb"|[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2})\Z"
)
_LONGEST = 1 << 16
"""Bytes of a sequence that are waited for; of a longer one only its end."""
_GRAPHICS = dict(zip(range(0x60, 0x7F), "◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
_BRITISH = {0x23: "£"}
_CHARSETS = {"0": _GRAPHICS, "A": _BRITISH}
_G = "()*+"
_MOST_COLOURS = 300
_LARGEST = 9999


class Screen:
    """One terminal: two buffers, of which one is shown."""

    def __init__(self, columns: int, rows: int) -> None:
        self._rest = b""
        self._handlers: dict[str, Callable[[list[int]], None]] = {
            "@": self._insert_characters, "A": self._up, "B": self._down, "C": self._right, "D": self._left,
            "E": self._next_line, "F": self._line_before, "G": self._column, "H": self._position, "I": self._tabs,
            "J": self._erase_display, "K": self._erase_line, "L": self._insert_lines, "M": self._delete_lines,
            "P": self._delete_characters, "S": self._scroll_up, "T": self._scroll_down, "X": self._erase_characters,
            "Z": self._tabs_back, "`": self._column, "a": self._right, "b": self._repeat, "d": self._row,
            "e": self._down_freely, "f": self._position, "g": self._clear_tabs, "h": self._set_modes,
            "l": self._reset_modes, "r": self._region, "s": self._save, "u": self._restore,
        }  # fmt: skip
        self._in_string = ""
        self._start(columns, rows)

    def _start(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.normal = Buffer(columns, rows, has_history=True)
        self.alternate = Buffer(columns, rows, has_history=False)
        self.shown = self.normal
        self.look = PLAIN
        self.charsets = ["B"] * 4
        self.shift = 0
        """Which of them is in use."""
        self.charset = "B"
        self.origin = False
        self.wraps = True
        self.inserts = False
        self.feeds_new_lines = False
        self.wraps_back = False
        self.colours: dict[str, str] = {}
        """What a program set of the palette, by the words that name it."""
        self._last = ""

    @property
    def incomplete_bytes(self) -> int:
        """How far back a sequence or a character began that is not complete yet."""
        return len(self._rest)

    @property
    def opened_string(self) -> bytes:
        """What begins a string of which the start is gone: what follows up to its end is no text."""
        return self._in_string.encode()

    @property
    def is_at_rest(self) -> bool:
        """Whether lines that come now scroll the whole screen, and are written as they are."""
        buffer = self.shown
        return (
            not self._rest
            and not self._in_string
            and (buffer.top, buffer.bottom) == (0, self.rows - 1)
            and self.wraps
            and not self.inserts
            and self.charset == "B"
            and not self.look.link
        )

    def begin_lines(self, look: Attributes) -> None:
        """Forget what is shown: all of it will be scrolled away by the lines that come now."""
        buffer = self.shown
        buffer.lines = [Line([], []) for _ in range(self.rows)]
        buffer.above = buffer.x = buffer.y = 0
        self.look = look
        self._last = ""

    # --- what comes in

    def feed(self, data: bytes) -> None:
        if self._in_string:
            data = self._skip_string(data)
        if self._rest:
            data = self._rest + data
            self._rest = b""
        unfinished = _UNFINISHED.search(data, max(0, len(data) - 4)) or self._find_unfinished(data)
        if unfinished is not None:
            self._rest = data[unfinished.start() :]
            data = data[: unfinished.start()]
            if len(self._rest) > _LONGEST:
                self._in_string = "\x1b]9999;" if self._rest[1:2] == b"]" else "\x1b_"
                self._rest = b""
        if data:
            self._take(data.decode("utf-8", "replace"))

    def _find_unfinished(self, data: bytes) -> re.Match[bytes] | None:
        at = data.rfind(b"\x1b")
        return _UNFINISHED.match(data, at) if at >= 0 else None

    def _skip_string(self, data: bytes) -> bytes:
        ends = [at for at in (data.find(end) for end in (b"\x1b", b"\x18", b"\x1a", b"\x07")) if at >= 0]
        if not ends:
            return b""
        self._in_string = ""
        end = min(ends)
        return data[end + (data[end] != 0x1B) :].removeprefix(b"\x1b\\")

    def _take(self, text: str) -> None:
        for found in _TOKEN.finditer(text):
            kind = found.lastindex
            if kind == _TEXT:
                self._print(found[1])
                continue
            if kind == _CSI:
                prefix, words, between, final = found.group(3, 4, 5, 6)
                if not words.isascii() or (words and min(words) < " "):
                    words = self._take_controls(words)
                if final == "m" and not prefix and not between:
                    self.look = apply_sgr(self.look, words)
                else:
                    self._control(prefix, words, between, final)
            elif kind == _NEWLINE:
                self.shown.x = 0
                self._feed_line()
            elif kind == _CONTROL:
                self._obey(found[11])
            elif kind == _ESC:
                self._escape(found[9], found[10])
            elif kind == _OSC:
                self._command(found[7] or "", found[8])
            self._last = ""

    def _take_controls(self, words: str) -> str:
        """Controls within a sequence act at once, as if they stood before it."""
        for sign in words:
            if "\x07" <= sign <= "\x0f":
                self._obey(sign)
        return "".join(sign for sign in words if sign >= " ")

    def resize(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        for buffer in (self.normal, self.alternate):
            buffer.resize(columns, rows)

    # --- text

    def _print(self, text: str) -> None:
        if self.charset != "B":
            text = text.translate(_CHARSETS[self.charset])
        line = self.shown.line(self.shown.y)
        if 0 < self.shown.x < len(line.cells) and line.cells[self.shown.x] == REST:
            line.cells[self.shown.x - 1], line.looks[self.shown.x - 1] = BLANK, self.look
        if text.isascii() or not has_odd(text):
            self._print_narrow(text)
            self._last = text[-1]
            return
        for character in text:
            columns = width(character)
            self._print_one(character, columns)
            self._last = character if columns else self._last + character

    def _print_narrow(self, text: str) -> None:
        buffer, look, columns = self.shown, self.look, self.columns
        at = 0
        while at < len(text):
            x = buffer.x
            if x >= columns:
                if self.wraps:
                    self._wrap()
                    x = 0
                else:
                    x = columns - 1
            piece = text[at : at + columns - x]
            if not self.wraps and at + len(piece) < len(text):
                piece = piece[:-1] + text[-1]  # the rest is written over the last column, one after the other
                at = len(text)
            count = len(piece)
            line = buffer.lines[buffer.above + buffer.y]
            if self.inserts:
                line.insert(x, count, columns, look)
            end = x + count
            cells, looks = line.cells, line.looks
            length = len(cells)
            if length < x:
                line.grow(x)
            elif length > end and cells[end] == REST:
                cells[end], looks[end] = BLANK, look
            cells[x:end] = piece
            looks[x:end] = [look] * count
            buffer.x = end
            at += count

    def _print_one(self, character: str, columns: int) -> None:
        buffer = self.shown
        if not columns:
            if self._last and buffer.x:
                line = buffer.line(buffer.y)
                at = buffer.x - 1 - (line.cells[buffer.x - 1 : buffer.x] == [REST])
                if at >= 0 and at < len(line.cells) and line.cells[at] != BLANK:
                    line.cells[at] += character
                return
            columns = 1  # nothing to join: it has a cell of its own
        if columns == 1:
            self._print_narrow(character)
            return
        if buffer.x + 2 > self.columns:
            if not self.wraps:
                buffer.x = self.columns - 1
                return
            line = buffer.line(buffer.y)
            for at in range(buffer.x, self.columns):
                line.set(at, BLANK, self.look)
            self._wrap()
        line = buffer.line(buffer.y)
        x = buffer.x
        if self.inserts:
            line.insert(x, 2, self.columns, self.look)
        line.grow(x + 2)
        if x + 2 < len(line.cells) and line.cells[x + 2] == REST:
            line.cells[x + 2], line.looks[x + 2] = BLANK, self.look
        line.cells[x : x + 2] = (character, REST)
        line.looks[x : x + 2] = (self.look, self.look)
        buffer.x += 2

    def _wrap(self) -> None:
        buffer = self.shown
        buffer.x = 0
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look), wrapped=True)
        else:
            buffer.y = min(buffer.y + 1, self.rows - 1)
            buffer.line(buffer.y).wrapped = True

    def _repeat(self, numbers: list[int]) -> None:
        if self._last:
            self._print(self._last * min(numbers[0] or 1, self.columns * self.rows))

    # --- single controls

    def _obey(self, sign: str) -> None:
        buffer = self.shown
        match sign:
            case "\r":
                buffer.x = 0
            case "\n" | "\x0b" | "\x0c":
                self._feed_line()
            case "\b":
                self._back()
            case "\t":
                if buffer.x < self.columns:
                    buffer.x = buffer.next_tab(buffer.x)
            case "\x0e" | "\x0f":
                self._shift_to(int(sign == "\x0e"))
            case _:
                pass

    def _feed_line(self) -> None:
        buffer = self.shown
        if self.feeds_new_lines:
            buffer.x = 0
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look))
        elif buffer.y < self.rows - 1:
            buffer.y += 1
            buffer.line(buffer.y).wrapped = False
        if buffer.x >= self.columns:
            buffer.x = self.columns - 1

    def _back(self) -> None:
        buffer = self.shown
        if not self.wraps_back:
            self._restrict()
            buffer.x = max(0, buffer.x - 1)
            return
        if buffer.x:
            buffer.x -= 1
        elif buffer.top < buffer.y <= buffer.bottom and buffer.line(buffer.y).wrapped:
            buffer.line(buffer.y).wrapped = False
            buffer.y -= 1
            line = buffer.line(buffer.y)
            last = self.columns - 1
            buffer.x = last - (len(line.cells) <= last or line.cells[last] == BLANK)

    def _shift_to(self, number: int) -> None:
        self.shift = number
        self.charset = self.charsets[number]

    def _escape(self, between: str, final: str) -> None:
        buffer = self.shown
        match between, final:
            case "", "7":
                self._save([])
            case "", "8":
                self._restore([])
            case "", "D":
                self._index()
            case "", "E":
                buffer.x = 0
                self._index()
            case "", "H":
                buffer.tabs.add(buffer.x)
            case "", "M":
                self._index_back()
            case "", "c":
                self._start(self.columns, self.rows)
            case "", "n" | "}":
                self._shift_to(2)
            case "", "o" | "|":
                self._shift_to(3)
            case "", "~":
                self._shift_to(1)
            case "#", "8":
                self._align()
            case "%", "@" | "G":
                self.charsets[0] = "B"
                self._shift_to(0)
            case "(" | ")" | "*" | "+" | "-" | ".", _:
                number = _G.find(between) if between in _G else "-.".find(between) + 1
                self.charsets[number] = final if final in _CHARSETS else "B"
                if self.shift == number:
                    self.charset = self.charsets[number]
            case _:
                pass

    def _index(self) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.y == buffer.bottom:
            buffer.scroll(erased(self.look))
        else:
            buffer.y += 1
        self._restrict()

    def _index_back(self) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.y == buffer.top:
            self._shift_lines(buffer.top, 1, erased(self.look))
        else:
            buffer.y -= 1
            self._restrict()

    def _align(self) -> None:
        self._set_cursor(0, 0)
        for y in range(self.rows):
            if self.shown.y + y < self.rows:
                line = self.shown.line(self.shown.y + y)
                line.cells, line.looks = ["E"] * self.columns, [self.look] * self.columns
                line.wrapped = False
        self._set_cursor(0, 0)

    def _command(self, number: str, words: str) -> None:
        match number:
            case "8":
                parameters, _, address = words.partition(";")
                self.look = self.look._replace(link=f"{parameters};{address}" if address else "")
            case "4":
                pairs = words.split(";")
                for index, colour in zip(pairs[::2], pairs[1::2], strict=False):
                    self._set_colour(f"4;{index}", colour)
            case "10" | "11" | "12":
                for offset, colour in enumerate(words.split(";")):
                    self._set_colour(str(int(number) + offset), colour)
            case "104":
                for index in words.split(";") if words else []:
                    self.colours.pop(f"4;{index}", None)
                if not words:
                    self.colours = {key: value for key, value in self.colours.items() if not key.startswith("4;")}
            case "110" | "111" | "112":
                self.colours.pop(number[1:], None)
            case _:
                pass

    def _set_colour(self, key: str, colour: str) -> None:
        if colour != "?" and len(colour) < 64 and len(self.colours) < _MOST_COLOURS:
            self.colours[key] = colour

    # --- sequences with numbers

    def _control(self, prefix: str, words: str, between: str, final: str) -> None:
        numbers = [min(int(word), _LARGEST) if word.isdigit() else 0 for word in words.split(";")]
        if not prefix and not between:
            handler = self._handlers.get(final)
            if handler is not None:
                handler(numbers)
        elif prefix == "?" and not between and final in "hl":
            for number in numbers:
                self._set_private(number, final == "h")
        elif prefix == "?" and not between and final in "JK":
            self._handlers[final](numbers)
        elif between == "!" and final == "p":
            self._reset_softly()
        elif between in (" ", "'") and final in "@A}~":
            self._move_columns(between + final, numbers)

    def _restrict(self, last: int | None = None) -> None:
        buffer = self.shown
        buffer.x = min(buffer.x, self.columns - 1 if last is None else last)
        top, bottom = (buffer.top, buffer.bottom) if self.origin else (0, self.rows - 1)
        buffer.y = min(bottom, max(top, buffer.y))

    def _set_cursor(self, x: int, y: int) -> None:
        buffer = self.shown
        buffer.x, buffer.y = max(0, x), y + (buffer.top if self.origin else 0)
        self._restrict()

    def _move(self, x: int, y: int) -> None:
        self._restrict()
        # As the page's engine does: with an origin the region's top is added to where the cursor is.
        self._set_cursor(self.shown.x + x, self.shown.y + y)

    def _up(self, numbers: list[int]) -> None:
        room = self.shown.y - self.shown.top
        self._move(0, -min(numbers[0] or 1, room if room >= 0 else _LARGEST))

    def _down(self, numbers: list[int]) -> None:
        room = self.shown.bottom - self.shown.y
        self._move(0, min(numbers[0] or 1, room if room >= 0 else _LARGEST))

    def _right(self, numbers: list[int]) -> None:
        self._move(numbers[0] or 1, 0)

    def _left(self, numbers: list[int]) -> None:
        self._move(-(numbers[0] or 1), 0)

    def _next_line(self, numbers: list[int]) -> None:
        self._down(numbers)
        self.shown.x = 0

    def _line_before(self, numbers: list[int]) -> None:
        self._up(numbers)
        self.shown.x = 0

    def _column(self, numbers: list[int]) -> None:
        self._set_cursor((numbers[0] or 1) - 1, self.shown.y)

    def _position(self, numbers: list[int]) -> None:
        self._set_cursor((numbers[1] or 1) - 1 if len(numbers) > 1 else 0, (numbers[0] or 1) - 1)

    def _row(self, numbers: list[int]) -> None:
        self._set_cursor(self.shown.x, (numbers[0] or 1) - 1)

    def _down_freely(self, numbers: list[int]) -> None:
        self._move(0, numbers[0] or 1)

    def _tabs(self, numbers: list[int]) -> None:
        if self.shown.x < self.columns:
            for _ in range(min(numbers[0] or 1, self.columns)):
                self.shown.x = self.shown.next_tab(self.shown.x)

    def _tabs_back(self, numbers: list[int]) -> None:
        if self.shown.x < self.columns:
            for _ in range(min(numbers[0] or 1, self.columns)):
                self.shown.x = self.shown.tab_before(self.shown.x)

    def _clear_tabs(self, numbers: list[int]) -> None:
        if numbers[0] == 0:
            self.shown.tabs.discard(self.shown.x)
        elif numbers[0] == 3:
            self.shown.tabs.clear()

    def _erase_display(self, numbers: list[int]) -> None:
        buffer = self.shown
        self._restrict(self.columns)
        look = erased(self.look)
        match numbers[0]:
            case 0:
                line = buffer.line(buffer.y)
                line.fill(buffer.x, self.columns, look)
                line.wrapped &= buffer.x != 0
                self._blank_rows(buffer.y + 1, self.rows, look)
            case 1:
                line = buffer.line(buffer.y)
                line.fill(0, buffer.x + 1, look)
                line.wrapped = False
                if buffer.x + 1 >= self.columns and buffer.y + 1 < len(buffer.lines):
                    buffer.lines[buffer.y + 1].wrapped = False
                self._blank_rows(0, buffer.y, look)
            case 2:
                self._blank_rows(0, self.rows, look)
            case 3:
                del buffer.lines[: buffer.above]
                buffer.above = 0
            case _:
                pass

    def _blank_rows(self, start: int, end: int, look: Attributes) -> None:
        above = self.shown.above
        for at in range(above + start, above + end):
            self.shown.lines[at] = blank_line(self.columns, look)

    def _erase_line(self, numbers: list[int]) -> None:
        buffer = self.shown
        self._restrict(self.columns)
        line, look = buffer.line(buffer.y), erased(self.look)
        match numbers[0]:
            case 0:
                line.fill(buffer.x, self.columns, look)
                line.wrapped &= buffer.x != 0
            case 1:
                line.fill(0, min(buffer.x + 1, self.columns), look)
            case 2:
                line.fill(0, self.columns, look)
                line.wrapped = False
            case _:
                pass

    def _shift_lines(self, at: int, count: int, look: Attributes) -> None:
        """Blank lines come in there, and the last ones of the region go; with a negative count the other way round."""
        buffer = self.shown
        first, last = buffer.above + at, buffer.above + buffer.bottom
        height = last - first + 1
        lines = buffer.lines[first : last + 1]
        fresh: list[Line] = [blank_line(self.columns, look) for _ in range(min(abs(count), height))]
        moved = fresh + lines[: height - len(fresh)] if count > 0 else lines[len(fresh) :] + fresh
        buffer.lines[first : last + 1] = moved

    def _insert_lines(self, numbers: list[int]) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.top <= buffer.y <= buffer.bottom:
            self._shift_lines(buffer.y, numbers[0] or 1, erased(self.look))
            buffer.x = 0

    def _delete_lines(self, numbers: list[int]) -> None:
        self._restrict()
        buffer = self.shown
        if buffer.top <= buffer.y <= buffer.bottom:
            self._shift_lines(buffer.y, -(numbers[0] or 1), erased(self.look))
            buffer.x = 0

    def _scroll_up(self, numbers: list[int]) -> None:
        self._shift_lines(self.shown.top, -(numbers[0] or 1), erased(self.look))

    def _scroll_down(self, numbers: list[int]) -> None:
        if len(numbers) == 1:  # with more numbers it tracks the mouse in an old way
            self._shift_lines(self.shown.top, numbers[0] or 1, PLAIN)

    def _insert_characters(self, numbers: list[int]) -> None:
        self._restrict()
        buffer = self.shown
        buffer.line(buffer.y).insert(buffer.x, numbers[0] or 1, self.columns, erased(self.look))

    def _delete_characters(self, numbers: list[int]) -> None:
        self._restrict()
        buffer = self.shown
        buffer.line(buffer.y).delete(buffer.x, numbers[0] or 1, self.columns, erased(self.look))

    def _erase_characters(self, numbers: list[int]) -> None:
        self._restrict()
        buffer = self.shown
        end = min(buffer.x + (numbers[0] or 1), self.columns)
        buffer.line(buffer.y).fill(buffer.x, end, erased(self.look))

    def _move_columns(self, name: str, numbers: list[int]) -> None:
        buffer, look, count = self.shown, erased(self.look), numbers[0] or 1
        if not buffer.top <= buffer.y <= buffer.bottom:
            return
        at = 0 if name[0] == " " else buffer.x % self.columns
        for y in range(buffer.top, buffer.bottom + 1):
            line = buffer.line(y)
            if name in (" A", "'}"):
                line.insert(at, count, self.columns, look)
            else:
                line.delete(at, count, self.columns, look)
            line.wrapped = False

    def _region(self, numbers: list[int]) -> None:
        top = numbers[0] or 1
        bottom = numbers[1] if len(numbers) > 1 else 0
        if not 0 < bottom <= self.rows:
            bottom = self.rows
        if bottom > top:
            self.shown.top, self.shown.bottom = top - 1, bottom - 1
            self._set_cursor(0, 0)

    def _save(self, _numbers: list[int]) -> None:
        self.shown.saved = self.shown.x, self.shown.y, self.look, self.charset

    def _restore(self, _numbers: list[int]) -> None:
        buffer = self.shown
        buffer.x, buffer.y, look, self.charset = buffer.saved
        self.look = look._replace(link=self.look.link)
        self._restrict()

    def _set_modes(self, numbers: list[int]) -> None:
        self.inserts |= 4 in numbers
        self.feeds_new_lines |= 20 in numbers

    def _reset_modes(self, numbers: list[int]) -> None:
        self.inserts &= 4 not in numbers
        self.feeds_new_lines &= 20 not in numbers

    def _set_private(self, number: int, on: bool) -> None:
        match number:
            case 2 if on:
                self.charsets = ["B"] * 4
                self.charset = "B"
            case 6:
                self.origin = on
                self._set_cursor(0, 0)
            case 7:
                self.wraps = on
            case 45:
                self.wraps_back = on
            case 1048:
                (self._save if on else self._restore)([])
            case 47 | 1047 | 1049:
                self._switch(number, on)
            case _:
                pass

    def _switch(self, number: int, on: bool) -> None:
        """To the alternate screen, which is blank, or back."""
        if on and number == 1049:
            self._save([])
        wanted = self.alternate if on else self.normal
        if wanted is not self.shown:
            x, y = self.shown.x, self.shown.y
            self.alternate.clear()
            if on:
                look = erased(self.look)
                self.alternate.lines = [blank_line(self.columns, look) for _ in range(self.rows)]
            self.shown = wanted
            wanted.x, wanted.y = x, y
        if not on and number == 1049:
            self._restore([])

    def _reset_softly(self) -> None:
        buffer = self.shown
        buffer.top, buffer.bottom = 0, self.rows - 1
        buffer.saved = (0, 0, PLAIN, "B")
        self.look = PLAIN
        self.charsets = ["B"] * 4
        self.shift = 0
        self.charset = "B"
        self.origin = self.inserts = self.wraps_back = False
        self.wraps = True
