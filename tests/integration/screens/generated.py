"""Output as programs write it, and worse, made by chance from a seed: text of all kinds, and what moves and styles it.

Left out is what nothing can bring back, or what terminals differ in; docs/decisions/016-screens.md lists it.
"""

from __future__ import annotations

from random import Random

from corral.terminals.screen import Screen

_WORDS = ["a", "quick", "brown ", "fox jumps", " over", "the lazy dog.", "x" * 37, "          ", "0123456789", "~~~"]
_WIDE = ["日本語", "한글", "🎉", "👍🏽", "\u3000"]
_OTHERS = ["é", "─│┌┐", "Ω≈ç√", "—“…”", "🇩🇪", "ｱ", "\u00ad", "\ufeff"]
_JOINED = ["e\u0301", "n\u0303o", "界\u0301", "👩\u200d👩\u200d👧", "❤\ufe0f", "x\u200b", "a\u0301\u0302\u0303"]
_COMMON = ["é", "─│┌┐", "日本語", "한글", "🎉", "e\u0301", "n\u0303o", "界\u0301", "Ω≈ç√", "—“…”"]
_GRAPHICS = ["lqqqk", "x", "mqj", "abc~", "#"]
_STYLES = [
    "",
    "0",
    "0",
    "1",
    "2",
    "3",
    "4",
    "5",
    "7",
    "8",
    "9",
    "21",
    "22",
    "23",
    "24",
    "25",
    "27",
    "28",
    "29",
    "53",
    "55",
]
_UNDERLINES = [
    "4:0",
    "4:1",
    "4:2",
    "4:3",
    "4:4",
    "4:5",
    "4:9",
    "4:",
    "58;5;9",
    "58;2;9;8;7",
    "58:2::1:1:1",
    "58:5:4",
    "59",
]
_COLOURS = [
    "31", "42", "93", "104", "39", "49", "38;5;208", "48;5;17", "38;2;1;2;3", "48;2;200;100;0", "38:5:99", "48:5:300",
    "38:2::7:8:9", "48:2::1:2:3", "38:2:5:6:7", "48:2:1", "38;5", "48;2;9", "38;6;1", "38", "38:5", "38:2",
]  # fmt: skip
_MODES = [
    "\x1b[?25l", "\x1b[?25h", "\x1b[?1h", "\x1b[?1l", "\x1b=", "\x1b>", "\x1b[?66h", "\x1b[?66l", "\x1b[?12h", "\x1b[?12l",
    "\x1b[?9h", "\x1b[?1000h", "\x1b[?1000l", "\x1b[?1002h", "\x1b[?1003h", "\x1b[?1003l", "\x1b[?1006h", "\x1b[?1006l",
    "\x1b[?1016h", "\x1b[?1002;1006h", "\x1b[?1004h", "\x1b[?1004l", "\x1b[?2004h", "\x1b[?2004l", "\x1b[?2026h",
    "\x1b[?2026l", "\x1b[?2026l", "\x1b[>1u", "\x1b[<u", "\x1b[=5;1u", "\x1b[>4;2m", "\x1b[>4m", "\x1b[0 q", "\x1b[3 q",
    "\x1b[6 q", "\x1b[4h", "\x1b[4l", "\x1b[4l", "\x1b[20h", "\x1b[20l", "\x1b[?45h", "\x1b[?45l", "\x1b[?6h", "\x1b[?6l",
    "\x1b[4hput in\x1b[4l", "\x1b[?7l" + "cut " * 40 + "\x1b[?7h", "\x1b[?5h", "\x1b[?5l", "\x1b[?2h", "\x1b[?69h",
]  # fmt: skip
_LETTERS = [
    "\x1b(0", "\x1b(B", "\x1b(A", "\x0e", "\x0f", "\x1b)0", "\x1b)B", "\x1b*0", "\x1b+A", "\x1bn", "\x1bo", "\x1b~",
    "\x1b%G", "\x1b-0", "\x1b.A",
]  # fmt: skip
_TITLES = ["\x1b]2;a title\x07", "\x1b]0;another\x1b\\", "\x1b]2;\x07", "\x1b]2;日本 é;x\x1b\\", "\x1b]1;icon\x07"]
_PALETTE = [
    "\x1b]4;3;#102030\x07", "\x1b]4;3;rgb:1/2/3;5;#fff\x07", "\x1b]104\x07", "\x1b]104;3\x07", "\x1b]10;#111111\x07",
    "\x1b]11;#222222\x07", "\x1b]12;#333333\x07", "\x1b]110\x07", "\x1b]111\x07", "\x1b]112\x07", "\x1b]10;#1;#2\x07",
    "\x1b]11;?\x07",
]  # fmt: skip
_KEEP = "\x1b[0m\x1b7"
_SCREENS = [
    f"{_KEEP}\x1b[?47h", "\x1b[?47l", f"{_KEEP}\x1b[?1047h", "\x1b[?1047l", "\x1b[0m\x1b[?1049h", f"{_KEEP}\x1b[?1049l",
]  # fmt: skip
_RESET = "\x1bc\x1b[?25h\x1b[?12l\x1b[20l\x1b]104\x07\x1b]110\x07\x1b]111\x07\x1b]112\x07"
_RARE = [
    "\x1bH", "\x1b[g", "\x1b[3g", "\x1b[!p", _RESET, "\x1b[0m\x1b#8", "\x1b[3J", "\x1b#3", "\x1b[?3h",
    "\x1bPq#0~~\x1b\\", "\x1b_Gx=1\x1b\\", "\x1b^message\x1b\\", "\x1bXstring\x1b\\", "\x1b[6n", "\x1b[c", "\x05",
]  # fmt: skip
_BROKEN = [
    "\x1b[2\bC", "\x1b[\r3B", "\x1b[5\x18", "\x1b\x1b[1m", "\x1b]2;cut\x18", "\x1b[1;2\x1b[3;3H", "\x1b[1?2H", "\x1b[3é",
    "\x1b\r[1m", "\x1b]2;a\x01b\x1b[1m", "\u009b31m", "\u0085", "\u0084", "\x1b_é\x1b\\", "\x1bP1$t\u0301x\x1b\\", "\x1b(\x1b(B",
    "\x1b[4:3H", "\x1b[" + ";".join(["1"] * 40) + "m", "\x1b[99999999999999999999C", "\x1b[0;3 q", "\x7f", "\x00",
]  # fmt: skip
_NO_TEXT = [b"\xff", b"\xc3(", b"\xe2\x80(", b"\xed\xa0\x80", b"\xf0\x9f(", b"\x9b31m", b"\xc0\x80"]
_LINKS = [
    "\x1b]8;;http://a.example/\x1b\\link\x1b]8;;\x1b\\", "\x1b]8;id=q;http://b.example/x;y\x07in\x1b]8;;\x07",
]  # fmt: skip


def choose_size(random: Random, screen: Screen, columns: tuple[int, int], rows: tuple[int, int]) -> tuple[int, int]:
    """One in which no wide character is cut in half: in rows that are not wrapped again, xterm.js keeps its left half."""
    normal, alternate = screen.normal, screen.alternate
    start = end = normal.above + normal.y
    while start and normal.lines[start].wrapped:
        start -= 1
    while end + 1 < len(normal.lines) and normal.lines[end + 1].wrapped:
        end += 1
    kept = [*normal.lines[start : end + 1], *alternate.lines]
    while True:
        size = random.randint(*columns), random.randint(*rows)
        if not any(line.is_wide(size[0] - 1) for line in kept):
            return size


def generate(random: Random, columns: int, rows: int, count: int, *, common: bool = False, joins: bool = True) -> bytes:
    """So many pieces. `common`: only what all terminals do alike.

    `joins`: with characters that join others, and links; xterm.js 6.0.0 mixes those up itself when it wraps lines again.
    """
    return b"".join(_piece(random, columns, rows, common, joins) for _ in range(count))


def _piece(random: Random, columns: int, rows: int, common: bool, joins: bool) -> bytes:
    kind = random.random()
    if kind < 0.34:
        return _text(random, common, joins).encode()
    if kind < 0.48:
        others = ["\n", "\r", "\b", "\b", "\t", "\t", "\x0b", "\x0c", "\x07"]
        return random.choice(["\r\n", "\r\n", "\t"] if common else ["\r\n", "\r\n", *others]).encode()
    if kind < 0.6:
        return _colours(random, common).encode()
    if kind < 0.76:
        return _move(random, columns, rows, common).encode()
    if kind < 0.89:
        return _edit(random, rows, common).encode()
    if kind < 0.895 and not common:
        return random.choice(_NO_TEXT)
    return _state(random, columns, rows, common, joins).encode()


def _text(random: Random, common: bool, joins: bool) -> str:
    known = [*_WORDS, *_WORDS, *(_COMMON if common else [*_WIDE, *_OTHERS])]
    some = random.choice(known + _JOINED if joins and not common else known)
    # Terminals differ in what is in the last cell when a wide character that does not fit wraps: here it is blank.
    before = "\x1b[J" if common and some > "\u2fff" else ""
    return before + some * random.choice([1, 1, 1, 1, 2, 5, 5, 20])


def _colours(random: Random, common: bool) -> str:
    if not common:
        words = random.sample([*_STYLES, *_UNDERLINES, *_COLOURS], random.choice([1, 1, 1, 2, 3, 4]))
        return f"\x1b[{';'.join(words)}m"
    if random.random() < 0.05:
        return "\x1b[4:3;58;5;9mcurly\x1b[24;59m"
    plain = [word for word in _COLOURS[:10] if word] + [
        "0",
        "0",
        "1",
        "2",
        "3",
        "4",
        "5",
        "7",
        "9",
        "22",
        "24",
        "27",
        "53",
    ]
    return f"\x1b[{';'.join(random.sample(plain, random.choice([1, 1, 2, 3])))}m"


def _move(random: Random, columns: int, rows: int, common: bool) -> str:
    x, y = random.randint(1, columns + 1), random.randint(1, rows + 1)
    n = random.choice(["", "1", "2", "5", "40"] if common else ["", "0", "1", "2", "3", "7", "40", "70000"])
    some = [f"\x1b[{y};{x}H"] * 4 + [f"\x1b[{n}{final}" for final in "ABCDEF"] + [f"\x1b[{x}G", f"\x1b[{y}d", "\x1b[H"]
    if not common:
        some += [f"\x1b[{n}{final}" for final in "aeIZG`"]
        some += [
            f"\x1b[{x}`",
            f"\x1b[{y};{columns}H",
            f"\x1b[{rows};{x}H",
            f"\x1b[{y};{x}f",
            f"\x1b[;{x}H",
            f"\x1b[{y}H",
        ]
    return random.choice(some)


def _edit(random: Random, rows: int, common: bool) -> str:
    if common:
        n, y = random.choice(["", "1", "2", "3"]), random.randint(1, rows)
        some = [f"\x1b[{n}@", f"\x1b[{n}P", f"\x1b[{n}X", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J"]
        some += [f"\x1b[r\x1b[{y};1H\x1b[{n}L", f"\x1b[r\x1b[{y};1H\x1b[{n}M", "\x1bM", "\x1bD", "\x1bE", "\rz\x1b[3b"]
        return random.choice(some)
    n = random.choice(["", "0", "1", "2", "3", "30", "70000"])
    some = [f"\x1b[{n}{final}" for final in "@PXLMST"] + [f"\x1b[{n} @", f"\x1b[{n} A", f"\x1b[{n}'}}", f"\x1b[{n}'~"]
    some += [
        "\x1b[K",
        "\x1b[1K",
        "\x1b[2K",
        "\x1b[3K",
        "\x1b[J",
        "\x1b[2J",
        "\x1b[?J",
        "\x1b[?K",
        "\x1b[?1K",
        "\x1b[2;2H\x1b[1J",
    ]
    some += ["\x1bD", "\x1bM", "\x1bM", "\x1bE", f"z\x1b[{random.choice(['', '2', '40'])}b", "日\x1b[2b", "\x1b[3b"]
    return random.choice(some)


def _state(random: Random, columns: int, rows: int, common: bool, joins: bool) -> str:
    top = random.randint(1, max(1, rows - 2))
    bottom = random.randint(top + 1, rows)
    graphics = f"\x1b(0{random.choice(_GRAPHICS[:4])}\x1b(B"
    if common:
        some = [
            f"\x1b[{top};{bottom}r",
            "\x1b[r",
            graphics,
            "\x1b[?25l",
            "\x1b[?25h",
            "\x1b]2;a title\x07",
            "\x1b[?2004h",
        ]
        some += ["\x1b[?1h\x1b=", "\x1b[?1002;1006h", "\x1b[0m\x1b[r\x1b[?1049h", "\x1b[r\x1b[?1049h\x1b[?1049l\x1b[0m"]
        some += [
            "\x1b[4hput in\x1b[4l",
            "\x1b7\x1b[1;1H\x1b[7mkept\x1b8",
            "\x1b7\x1b[999H\n\n\n\x1b8kept its row",
            "\x1b[0m\x1b[r\x1b#8",
        ]
        return random.choice([*some, "\x1b[?2026hat once\x1b[?2026l"])
    region = [f"\x1b[{top};{bottom}r", f"\x1b[{top}r", f"\x1b[;{bottom}r", "\x1b[r"]
    kept = _keep(random, columns, rows)
    groups: list[list[str]] = [region, _MODES, _LETTERS, _TITLES, _PALETTE, _SCREENS, _RARE, _BROKEN, [kept, graphics]]
    return random.choice(random.choice([*groups, _LINKS] if joins else groups))


def _keep(random: Random, columns: int, rows: int) -> str:
    """Keep the cursor, and mostly put it back before anything scrolls."""
    between = "".join(_move(random, columns, rows, False) for _ in range(random.randint(0, 2)))
    between += random.choice(["", "\x1b[?6h", "\x1b[?6l", "\x1b[1m", "\x1b[7;31m", "\x1b[48;5;9m"])
    back = random.choice(["\x1b8", "\x1b[u", "\x1b[?1048l", ""])
    return "\x1b[0m" + random.choice(["\x1b7", "\x1b[s", "\x1b[?1048h"]) + between + back
