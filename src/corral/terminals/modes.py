"""Which terminal modes a program has set, followed through its output however that is cut. Standard library only."""

from __future__ import annotations

import re

# Of all sequences those that can change what is followed here. Colours and cursor moves are by far the most: the look
# ahead passes over them before anything else is tried, which makes all of it five times as fast.
_SEQUENCE = re.compile(
    rb"\x1b(?!\[[0-9@-~][^ ])"
    rb"(?:\[(?:([?<>=!])([0-9;]{0,60})[ -/]*([@-~])|([0-9]?) q)|([=>c])|\][02];([^\x07\x1b]*)(?=[\x07\x1b]))"
)
_FOLLOWED = frozenset(
    # cursor keys, reverse video, origin, wrap, cursor blink, cursor, keypad; mouse (9 to 1016); focus; alternate
    # scroll; bracketed paste; colour scheme reports; resize reports
    (1, 5, 6, 7, 9, 12, 25, 66, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1016, 2004, 2031, 2048)
)
_ALTERNATE = frozenset((47, 1047, 1049))
_ON_AT_START = frozenset((7, 25))
_LONGEST = 4096
"""Bytes of a sequence that are kept while it is incomplete; of a longer one only its end is looked for."""
_LONGEST_TITLE = 256
_STRINGS = b"]PX^_"
_DEEPEST = 16
_MOST_KNOWN = 64


class Modes:
    """Fed with all output in order, it says at any point how a fresh terminal gets to the same modes."""

    def __init__(self) -> None:
        self.title = ""
        self.alternate = 0
        """The mode by which the alternate screen was entered, 0 on the normal one."""
        self._private: dict[int, bool] = {}
        self._keypad: bool | None = None
        self._cursor_style: bytes | None = None
        self._modify_keys: bytes | None = None
        self._keyboard: dict[bool, list[int]] = {}
        """Kitty keyboard flags, a stack for each screen (True: the alternate one)."""
        self._rest = b""
        self._in_string = False
        self._known: dict[bytes, dict[int, bool]] = {}
        """What sequences that were read before do, for those that only set modes of `_private`."""

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
                self._private.update(changes)
        last = data[data.rfind(b"\x1b") + 1 :]
        if _is_complete(last):
            return
        if len(last) < _LONGEST:
            self._rest = b"\x1b" + last
        else:
            self._in_string = True

    def restore(self) -> bytes:
        """What brings a terminal in its first state to these modes; the screens themselves are left to a picture."""
        parts = [b"\x1b[?%d%c" % (number, b"h" if on else b"l") for number, on in self._private.items()]
        if self._keypad is not None:
            parts.append(b"\x1b=" if self._keypad else b"\x1b>")
        if self._modify_keys is not None:
            parts.append(b"\x1b[>4;%sm" % self._modify_keys)
        if self._cursor_style is not None:
            parts.append(b"\x1b[%s q" % self._cursor_style)
        if self.title:
            parts.append(b"\x1b]2;%s\x07" % self.title.encode())
        return b"".join(parts)

    def keyboard(self, *, alternate: bool) -> bytes:
        """The same for the keyboard's flags, of which each screen has its own: to be said while that one is shown."""
        stack = self._keyboard.get(alternate)
        # Taking off more than there is empties the stack and turns all of it off.
        return b"" if stack is None else b"\x1b[<99u" + b"".join(b"\x1b[>%du" % flags for flags in stack)

    def undo(self) -> bytes:
        """What brings a terminal from these modes back to how one begins."""
        parts = [b"\x1b[0m"]
        if self.alternate:
            parts.append(b"\x1b[<99u" if self._keyboard.get(True) else b"")
            parts.append(b"\x1b[?%dl" % self.alternate)
        if self._keyboard.get(False):
            parts.append(b"\x1b[<99u")
        for number, on in self._private.items():
            if on != (number in _ON_AT_START):
                parts.append(b"\x1b[?%d%c" % (number, b"l" if on else b"h"))
        if self._keypad:
            parts.append(b"\x1b>")
        if self._modify_keys is not None:
            parts.append(b"\x1b[>4;0m")
        if self._cursor_style is not None:
            parts.append(b"\x1b[0 q")
        return b"".join(parts)

    def is_on(self, number: int) -> bool:
        """Whether a private mode is set."""
        if number in _ALTERNATE:
            return bool(self.alternate)
        return self._private.get(number, number in _ON_AT_START)

    def _skip_string(self, data: bytes) -> bytes:
        ends = [end for end in (data.find(b"\x07"), data.find(b"\x1b")) if end >= 0]
        if not ends:
            return b""
        self._in_string = False
        return data[min(ends) :]

    def _take(self, found: re.Match[bytes]) -> None:
        match found.lastindex:
            case 3:
                self._take_private(found[1], found[2], found[3])
            case 4:
                self._cursor_style = found[4] or b"0"
            case 5 if found[5] == b"c":
                self._reset()
            case 5:
                self._keypad = found[5] == b"="
            case _:
                text = found[6].decode("utf-8", "replace")
                self.title = "".join(sign for sign in text if sign.isprintable())[:_LONGEST_TITLE]

    def _take_private(self, prefix: bytes, numbers: bytes, final: bytes) -> None:
        if prefix == b"?" and final in b"hl":
            wanted = [int(number) for number in numbers.split(b";") if number.isdigit() and len(number) <= 5]
            for number in wanted:
                self._set(number, final == b"h")
            if not _ALTERNATE.intersection(wanted) and len(self._known) < _MOST_KNOWN:
                changes = {number: final == b"h" for number in wanted if number in _FOLLOWED}
                self._known[b"\x1b[?" + numbers + final] = changes
        elif final == b"u" and prefix in b"><=":
            self._take_keyboard(prefix, numbers)
        elif prefix == b">" and final == b"m" and (numbers == b"4" or numbers.startswith(b"4;")):
            value = numbers[2:]
            self._modify_keys = value if value.isdigit() and len(value) < 3 else b"0"
        elif prefix == b"!" and final == b"p":
            for number in (1, 6, 7, 25):
                self._private[number] = number in _ON_AT_START
            self._keypad = False

    def _set(self, number: int, on: bool) -> None:
        if number in _ALTERNATE:
            self.alternate = number if on else 0
        elif number in _FOLLOWED:
            self._private[number] = on

    def _take_keyboard(self, prefix: bytes, numbers: bytes) -> None:
        stack = self._keyboard.setdefault(bool(self.alternate), [])
        words = [int(word) if word.isdigit() and len(word) < 4 else 0 for word in numbers.split(b";")]
        if prefix == b">":
            stack.append(words[0])
            del stack[:-_DEEPEST]
        elif prefix == b"<":
            del stack[-max(1, words[0]) :]
        else:
            now, how = (stack[-1] if stack else 0), (words[1] if len(words) > 1 else 1)
            flags = now | words[0] if how == 2 else now & ~words[0] if how == 3 else words[0]
            stack[-1:] = [flags]

    def _reset(self) -> None:
        self.title = ""
        self.alternate = 0
        self._private = {number: number in _ON_AT_START for number in self._private}
        self._keypad = None if self._keypad is None else False
        self._cursor_style = None if self._cursor_style is None else b"0"
        self._modify_keys = None if self._modify_keys is None else b"0"
        self._keyboard = {screen: [] for screen in self._keyboard}


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
