"""How a cell looks: colours and styles, read from SGR sequences and written as them. Standard library only."""

from __future__ import annotations

from corral.sidecar.light_typing import NamedTuple

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
_known: dict[tuple[Attributes, str], Attributes] = {}
_blanks: dict[str, Attributes] = {"": PLAIN}


def apply_sgr(before: Attributes, words: str) -> Attributes:
    """What a sequence with these parameters makes of a look."""
    known = _known.get((before, words))
    if known is None:
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        known = _known[before, words] = _apply(before, words)
    return known


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
    return not look.styles & _DRAWN_IN_BLANKS and not look.underline


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
    parts = words.split(";")
    at = 0
    while at < len(parts):
        word, *rest = parts[at].split(":")
        number = int(word or 0)
        at += 1
        if number == 0:
            foreground = background = underline_colour = ""
            styles = underline = 0
        elif number in _ON:
            styles |= _ON[number]
        elif number in _OFF:
            styles &= ~_OFF[number]
        elif number == 4:
            style = int(rest[0] or 0) if rest else 1
            underline = style if style < _UNDERLINES else 1
        elif number == 21:
            underline = 2
        elif number == 24:
            underline = 0
        elif 30 <= number <= 37 or 90 <= number <= 97:
            foreground = str(number)
        elif 40 <= number <= 47 or 100 <= number <= 107:
            background = str(number)
        elif number in (38, 48, 58):
            colour, taken = _read_colour(number, rest, parts[at:])
            at += taken
            if colour is None:
                continue
            if number == 38:
                foreground = colour
            elif number == 48:
                background = colour
            else:
                underline_colour = colour
        elif number == 39:
            foreground = ""
        elif number == 49:
            background = ""
        elif number == 59:
            underline_colour = ""
    return Attributes(foreground, background, styles, underline, underline_colour, link)


def _read_colour(number: int, joined: list[str], following: list[str]) -> tuple[str | None, int]:
    """A colour of 256 or of all, given after colons or after semicolons; and how many words of the latter it took."""
    values = [int(word) if word.isdigit() else 0 for word in (joined or following[:4])]
    if not values:
        return None, 0
    if values[0] == 5:
        index = values[1] if len(values) > 1 else 0
        return f"{number};5;{index & 255}", 0 if joined else min(2, len(values))
    if values[0] == 2:
        # After colons a colour space may be named first.
        rgb = (values[2:] if joined and len(values) > 4 else values[1:])[:3]
        rgb += [0] * (3 - len(rgb))
        return f"{number};2;{';'.join(str(value & 255) for value in rgb)}", 0 if joined else min(4, len(values))
    return None, 0 if joined else 1
