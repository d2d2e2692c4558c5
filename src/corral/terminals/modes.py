"""Which terminal modes a program has set, followed through its output however that is cut. Standard library only."""

from __future__ import annotations

import re

# Of all sequences those that can change what is followed here. Colours and cursor moves are by far the most: the look
# ahead passes over them before anything else is tried, which makes all of it five times as fast.
_SEQUENCE = re.compile(
    rb"\x1b(?!\[[0-9@-~][^ ])"
    rb"(?:\[(?:([?<>=!])([0-9;]{0,60})[ -/]*([@-~])|([0-9]?) q)|([=>c])"
    rb"|\](0|2|4|1[012]|104|11[012])(?:;([^\x07\x18\x1a\x1b]*))?(?=[\x07\x1b]))"
)
_FOLLOWED = frozenset(
    # cursor keys, reverse video, origin, wrap, cursor blink, cursor; mouse (9 to 1016); focus; alternate
    # scroll; bracketed paste; synchronized output; colour scheme reports; resize reports
    (1, 5, 6, 7, 9, 12, 25, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2026, 2031, 2048)
)
_KEYPAD = 66
"""The same as a sequence of its own."""
_SYNCHRONIZED = 2026
_ALTERNATE = frozenset((47, 1047, 1049))
_ON_AT_START = frozenset((7, 25))
_RESET_SOFTLY = (1, 6, 7, 25, 1004, 2004, 2026)
"""By DECSTR, as the page's engine has it (xterm.js 6.0.0)."""
_LONGEST = 4096
"""Bytes of a sequence that are kept while it is incomplete; of a longer one only its end is looked for."""
_LONGEST_TITLE = 256
_COLOUR = re.compile(
    r"#(?:[0-9A-Fa-f]{3}){1,4}|rgb:(?:[0-9A-Fa-f]{1,4}/){2}[0-9A-Fa-f]{1,4}|[A-Za-z][A-Za-z0-9 ]{1,30}"
)
_MOST_COLOURS = 300
_MOST_STYLES = 6
_STRINGS = b"]PX^_"
_DEEPEST = 16
_MOST_KNOWN = 64


class Modes:
    """What a program has set. It says how a terminal in its first state gets there, and back."""

    def __init__(self) -> None:
        self.title = ""
        self.alternate = 0
        """The mode by which the alternate screen was entered, 0 on the normal one."""
        self._titled = False
        self._private: dict[int, bool] = {}
        """The latest change is the last: of some modes each undoes the others."""
        self._keypad: bool | None = None
        self._cursor_style: int | None = None
        self._modify_keys: str | None = None
        self._keyboard: dict[bool, list[int]] = {}
        """Kitty keyboard flags, a stack for each screen (True: the alternate one)."""
        self._colours: dict[str, str] = {}
        """What was set of the palette, by the words that name it."""

    # --- what a program sets

    def set_private(self, number: int, on: bool) -> None:
        if number in _FOLLOWED:
            self._private.pop(number, None)
            self._private[number] = on
        elif number == _KEYPAD:
            self._keypad = on
        elif number in _ALTERNATE and on != bool(self.alternate):
            self.alternate = number if on else 0

    def set_keypad(self, on: bool) -> None:
        self._keypad = on

    def set_cursor_style(self, number: int) -> None:
        if number <= _MOST_STYLES:
            self._cursor_style = number

    def set_modify_keys(self, words: str) -> None:
        """The parameters of a sequence that sets how keys are reported; only its fourth resource counts."""
        resource, _, value = words.partition(";")
        if resource == "4":
            self._modify_keys = value if value.isdigit() and len(value) < 3 else "0"

    def set_keyboard(self, prefix: str, words: str) -> None:
        """Kitty's keyboard flags: > puts some on the stack, < takes some off, = changes the topmost."""
        stack = self._keyboard.setdefault(bool(self.alternate), [])
        numbers = [int(word) if word.isdigit() and len(word) < 4 else 0 for word in words.split(";")]
        if prefix == ">":
            stack.append(numbers[0])
            del stack[:-_DEEPEST]
        elif prefix == "<":
            del stack[-max(1, numbers[0]) :]
        else:
            now, how = (stack[-1] if stack else 0), (numbers[1] if len(numbers) > 1 else 1)
            flags = now | numbers[0] if how == 2 else now & ~numbers[0] if how == 3 else numbers[0]
            stack[-1:] = [flags]

    def take_command(self, number: str, words: str) -> None:
        """Of an operating system command: titles and colours."""
        match number:
            case "0" | "2":
                self._titled = True
                self.title = "".join(sign for sign in words if sign.isprintable())[:_LONGEST_TITLE]
            case "4":
                pairs = words.split(";")
                for index, colour in zip(pairs[::2], pairs[1::2], strict=False):
                    self._set_colour(f"4;{index}", colour)
            case "10" | "11" | "12":
                for name, colour in zip(range(int(number), 13), words.split(";"), strict=False):
                    self._set_colour(str(name), colour)
            case "104":
                undone = words.split(";") if words else [key[2:] for key in self._colours]
                for index in undone:
                    self._colours.pop(f"4;{index}", None)
            case "110" | "111" | "112":
                self._colours.pop(number[1:], None)
            case _:
                pass

    def _set_colour(self, key: str, colour: str) -> None:
        is_named = key.replace(";", "").isdigit()
        if is_named and _COLOUR.fullmatch(colour) and len(self._colours) < _MOST_COLOURS:
            self._colours[key] = colour

    def reset_softly(self) -> None:
        for number in _RESET_SOFTLY:
            self.set_private(number, number in _ON_AT_START)
        self._keypad = False
        self._cursor_style = 0

    def reset(self) -> None:
        """All but the title."""
        self.alternate = 0
        self._private = {number: number in _ON_AT_START for number in self._private}
        self._keypad = None if self._keypad is None else False
        self._cursor_style = None if self._cursor_style is None else 0
        self._modify_keys = None if self._modify_keys is None else "0"
        self._keyboard = {screen: [] for screen in self._keyboard}
        self._colours = {}

    # --- the way there and back

    def restore(self) -> str:
        """What brings a terminal in its first state to these modes; the screens themselves are left to a picture."""
        parts = [_private(number, on) for number, on in self._private.items() if number != _SYNCHRONIZED]
        if self._keypad is not None:
            parts.append("\x1b=" if self._keypad else "\x1b>")
        if self._modify_keys is not None:
            parts.append(f"\x1b[>4;{self._modify_keys}m")
        if self._cursor_style is not None:
            parts.append(f"\x1b[{self._cursor_style} q")
        parts += [f"\x1b]{name};{colour}\x1b\\" for name, colour in self._colours.items()]
        if self._titled:
            parts.append(f"\x1b]2;{self.title}\x07")
        return "".join(parts)

    def finish(self) -> str:
        """What is said when all else is: that what comes now is shown with what follows it."""
        return _private(_SYNCHRONIZED, True) if self.is_on(_SYNCHRONIZED) else ""

    def keyboard(self, *, alternate: bool) -> str:
        """The same for the keyboard's flags, of which each screen has its own: to be said while that one is shown."""
        stack = self._keyboard.get(alternate)
        # Taking off more than there is empties the stack and turns all of it off.
        return "" if stack is None else "\x1b[<99u" + "".join(f"\x1b[>{flags}u" for flags in stack)

    def undo(self) -> str:
        """What brings a terminal from these modes back to how one begins."""
        parts = ["\x1b[0m"]
        if self.alternate:
            parts.append("\x1b[<99u" if self._keyboard.get(True) else "")
            parts.append(_private(self.alternate, False))
        if self._keyboard.get(False):
            parts.append("\x1b[<99u")
        for number, on in self._private.items():
            if on != (number in _ON_AT_START):
                parts.append(_private(number, not on))
        if self._keypad:
            parts.append("\x1b>")
        if self._modify_keys is not None:
            parts.append("\x1b[>4;0m")
        if self._cursor_style is not None:
            parts.append("\x1b[0 q")
        # 4;7 is undone by 104;7, and 11 by 111.
        parts += [f"\x1b]1{'0' if name[:2] == '4;' else ''}{name}\x1b\\" for name in self._colours]
        return "".join(parts)

    def is_on(self, number: int) -> bool:
        """Whether a private mode is set."""
        if number in _ALTERNATE:
            return bool(self.alternate)
        return self._private.get(number, number in _ON_AT_START)


def _private(number: int, on: bool) -> str:
    return f"\x1b[?{number}{'h' if on else 'l'}"


class ModeReader:
    """Reads of a program's output only what sets modes, at once and at little cost. Fed with all of it in order."""

    def __init__(self) -> None:
        self.modes = Modes()
        self._rest = b""
        self._in_string = False
        self._known: dict[bytes, dict[int, bool]] = {}
        """What sequences that were read before do, for those that only set private modes of one screen."""

    @property
    def incomplete_bytes(self) -> int:
        """How far back an escape sequence began that is not complete yet."""
        return len(self._rest)

    def feed(self, data: bytes) -> None:
        if self._in_string:
            data = self._skip_string(data)
        if self._rest:
            data = self._rest + data
            self._rest = b""
        elif b"\x1b" not in data:
            return
        for found in _SEQUENCE.finditer(data):
            # Programs that paint set the same few modes over and over.
            changes = self._known.get(found[0])
            if changes is None:
                self._take(found)
            else:
                for number, on in changes.items():
                    self.modes.set_private(number, on)
        last = data[data.rfind(b"\x1b") + 1 :]
        if _is_complete(last):
            return
        if len(last) < _LONGEST:
            self._rest = b"\x1b" + last
        else:
            self._in_string = True

    def _skip_string(self, data: bytes) -> bytes:
        ends = [end for end in (data.find(b"\x07"), data.find(b"\x1b")) if end >= 0]
        if not ends:
            return b""
        self._in_string = False
        return data[min(ends) :]

    def _take(self, found: re.Match[bytes]) -> None:
        match found.lastindex:
            case 3:
                self._take_private(found[1].decode(), found[2].decode(), found[3].decode())
            case 4:
                self.modes.set_cursor_style(int(found[4] or 0))
            case 5 if found[5] == b"c":
                self.modes.reset()
            case 5:
                self.modes.set_keypad(found[5] == b"=")
            case _:
                self.modes.take_command(found[6].decode(), (found[7] or b"").decode("utf-8", "replace"))

    def _take_private(self, prefix: str, words: str, final: str) -> None:
        if prefix == "?" and final in "hl":
            wanted = [int(word) for word in words.split(";") if word.isdigit() and len(word) <= 5]
            changes = dict.fromkeys(wanted, final == "h")
            for number, on in changes.items():
                self.modes.set_private(number, on)
            if len(self._known) < _MOST_KNOWN:
                self._known[f"\x1b[?{words}{final}".encode()] = changes
        elif final == "u" and prefix in "><=":
            self.modes.set_keyboard(prefix, words)
        elif prefix == ">" and final == "m":
            self.modes.set_modify_keys(words)
        elif prefix == "!" and final == "p":
            self.modes.reset_softly()


def _find_final(piece: bytes) -> int:
    """Where the byte is that ends a control sequence, or -1."""
    for position in range(1, len(piece)):
        if 0x40 <= piece[position] <= 0x7E:
            return position
    return -1


def _is_complete(piece: bytes) -> bool:
    """Whether no later byte can belong to the sequence."""
    if not piece:
        return False
    kind = piece[0]
    if kind == 0x5B:  # [
        return _find_final(piece) >= 0 or len(piece) > 64
    if kind in _STRINGS:
        # Only an operating system command may end with BEL; the others end with ESC \, which is a piece of its own.
        return kind == 0x5D and b"\x07" in piece
    if 0x20 <= kind <= 0x2F:  # one more byte belongs to it: a character set, for example
        return len(piece) > 1
    return True
