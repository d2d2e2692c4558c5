"""How a cell looks: colours and styles, read from SGR sequences and written as them. Standard library only."""

from __future__ import annotations

from typing import NamedTuple

_BOLD, _DIM, _ITALIC, _BLINK, _INVERSE, _HIDDEN, _STRUCK, _OVERLINED, _PROTECTED = (1 << bit for bit in range(9))
_ON = {
    1: _BOLD, 2: _DIM, 3: _ITALIC, 5: _BLINK, 7: _INVERSE, 8: _HIDDEN, 9: _STRUCK, 53: _OVERLINED,
}  # fmt: skip
_OFF = {
    22: _BOLD | _DIM, 23: _ITALIC, 25: _BLINK, 27: _INVERSE, 28: _HIDDEN, 29: _STRUCK, 55: _OVERLINED,
}  # fmt: skip
_UNDERLINES = 6
_DRAWN_IN_BLANKS = _INVERSE | _STRUCK | _OVERLINED
_MOST_KNOWN = 4096
_MOST_WORDS = 32
_LONGEST_WORD = 9


class Attributes(NamedTuple):
    """One look. Colours are the words of an SGR sequence that sets them; "" is the default."""

    foreground: str = ""
    background: str = ""
    styles: int = 0
    underline: int = 0
    """0 none, 1 single, 2 double, 3 curly, 4 dotted, 5 dashed."""
    underline_colour: str = ""
    link: str = ""
    """Parameters and address of a hyperlink, as its sequence has them."""


PLAIN = Attributes()
Styles = dict[str, tuple[Attributes, "Styles"]]
"""Where sequences that were read before lead from one look: by their parameters that look, and what leads from it."""
_styles: dict[Attributes, Styles] = {}
_noted: list[Styles] = []
"""One for each that is noted there: there are no more than that, whoever still has some of them."""
_blanks: dict[str, Attributes] = {"": PLAIN}


def apply_sgr(before: Attributes, words: str) -> Attributes:
    """What a sequence with these parameters makes of a look."""
    styles = find_styles(before)
    return (styles.get(words) or add_style(before, styles, words))[0]


def find_styles(look: Attributes) -> Styles:
    return _styles.setdefault(look, {})


def add_style(before: Attributes, styles: Styles, words: str) -> tuple[Attributes, Styles]:
    """Note where a sequence leads that was not read before."""
    if len(_noted) >= _MOST_KNOWN:
        for known in _noted:
            known.clear()
        _noted.clear()
        _styles.clear()
    look = _apply(before, words)
    styles[words] = look, find_styles(look)
    _noted.append(styles)
    return styles[words]


def erased(look: Attributes) -> Attributes:
    """How a cell looks that is erased now: it keeps the background alone."""
    known = _blanks.get(look.background)
    if known is None:
        if len(_blanks) >= _MOST_KNOWN:
            _blanks.clear()
            _blanks[""] = PLAIN
        known = _blanks[look.background] = Attributes(background=look.background)
    return known


def is_erased(look: Attributes) -> bool:
    """Whether a blank cell of this look is one that an erasing sequence leaves."""
    return not look.styles & _DRAWN_IN_BLANKS and not look.underline and not look.link


def select(look: Attributes) -> str:
    """The sequence that leads from any look to this one. Links are not part of it."""
    words = ["0"]
    words += [str(number) for number, style in _ON.items() if look.styles & style]
    if look.underline:
        words.append("4" if look.underline == 1 else f"4:{look.underline}")
    words += [word for word in (look.foreground, look.background, look.underline_colour) if word]
    return f"\x1b[{';'.join(words)}m"


def _apply(before: Attributes, words: str) -> Attributes:
    foreground, background, styles, underline, underline_colour, link = before
    parts = [_read_word(word) for word in words.split(";")[:_MOST_WORDS]]
    at = 0
    while at < len(parts):
        number, joined = parts[at]
        if number == 0:
            foreground = background = underline_colour = ""
            styles = underline = 0
        elif number in _ON:
            styles |= _ON[number]
        elif number in _OFF:
            styles &= ~_OFF[number]
        elif number == 4:
            underline = (joined[0] if 0 <= joined[0] < _UNDERLINES else 1) if joined else 1
        elif number == 21:
            underline = 2
        elif number == 24:
            underline = 0
        elif 30 <= number <= 37 or 90 <= number <= 97:
            foreground = str(number)
        elif 40 <= number <= 47 or 100 <= number <= 107:
            background = str(number)
        elif number in (38, 48, 58):
            colour, taken = _read_colour(number, parts[at:])
            at += taken
            if number == 38:
                foreground = colour or foreground
            elif number == 48:
                background = colour or background
            else:
                underline_colour = colour or underline_colour
        elif number == 39:
            foreground = ""
        elif number == 49:
            background = ""
        elif number == 59:
            underline_colour = ""
        at += 1
    return Attributes(foreground, background, styles, underline, underline_colour, link)


def _read_word(word: str) -> tuple[int, list[int]]:
    """A parameter, and what is joined to it by colons: -1 where nothing is."""
    number, *joined = word.split(":")
    return int(number[:_LONGEST_WORD] or 0), [int(part[:_LONGEST_WORD] or -1) for part in joined]


def _read_colour(number: int, parts: list[tuple[int, list[int]]]) -> tuple[str, int]:
    """A colour of 256 or of all, "" if it is none; and how many words after the first it took.

    As the page's engine reads them (xterm.js 6.0.0, InputHandler._extractColor): after colons a colour space is named
    first, even if somebody left it out; words that can't be a colour are consumed anyway.
    """
    values = [0, 0, -1, 0, 0, 0]
    """The word itself, the kind, the colour space, and three numbers or the first of them."""
    taken = shift = 0
    while True:
        values[taken + shift], joined = parts[taken]
        if joined:
            for at, value in enumerate(joined, taken + 1):
                shift = 1 if values[1] == 5 else shift
                if at + shift >= len(values):
                    break
                values[at + shift] = value
            break
        if (values[1] == 5 and taken + shift >= 2) or (values[1] == 2 and taken + shift >= 5):
            break
        shift = 1 if values[1] else shift
        taken += 1
        if taken >= len(parts) or taken + shift >= len(values):
            break
    if values[1] == 5:
        return f"{number};5;{max(0, values[3]) & 255}", taken
    if values[1] == 2:
        return f"{number};2;{';'.join(str(max(0, value) & 255) for value in values[3:])}", taken
    return "", taken
