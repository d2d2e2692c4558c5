"""Output as programs write it, made by chance from a seed: text of all kinds, and the sequences that move it."""

from __future__ import annotations

from random import Random

_WORDS = ["a", "quick", "brown ", "fox jumps", " over", "the lazy dog.", "x" * 37, "          ", "0123456789"]
_OTHERS = ["é", "─│┌┐", "日本語", "한글", "🎉", "e\u0301", "n\u0303o", "界\u0301", "Ω≈ç√"]
_GRAPHICS = ["lqqqk", "x", "mqj", "abc~"]


def generate(random: Random, columns: int, rows: int, count: int, *, common: bool = False) -> bytes:
    """So many pieces. `common`: only what all terminals do alike."""
    return b"".join(_piece(random, columns, rows, common).encode() for _ in range(count))


def _piece(random: Random, columns: int, rows: int, common: bool) -> str:
    kind = random.random()
    if kind < 0.35:
        return _text(random)
    if kind < 0.5:
        return random.choice(["\r\n", "\r\n", "\n", "\r", "\b", "\t", "\t"]) if not common else "\r\n"
    if kind < 0.62:
        return _colours(random)
    if kind < 0.78:
        return _move(random, columns, rows, common)
    if kind < 0.92:
        return _edit(random, rows, common)
    return _state(random, rows, common)


def _text(random: Random) -> str:
    some = random.choice([*_WORDS, *_WORDS, *_OTHERS])
    return some * random.choice([1, 1, 1, 2, 5])


def _colours(random: Random) -> str:
    words = ["0", "1", "2", "3", "4", "5", "7", "9", "22", "24", "27", "31", "42", "93", "104", "39", "49", "53"]
    words += ["38;5;208", "48;5;17", "38;2;1;2;3", "48;2;200;100;0", "0", "0"]
    if random.random() < 0.05:
        return "\x1b[4:3;58;5;9mcurly\x1b[24;59m"
    return f"\x1b[{';'.join(random.sample(words, random.choice([1, 1, 2, 3])))}m"


def _move(random: Random, columns: int, rows: int, common: bool) -> str:
    x, y, n = random.randint(1, columns + 1), random.randint(1, rows + 1), random.choice(["", "1", "2", "5", "40"])
    some = [f"\x1b[{y};{x}H"] * 4
    some += [f"\x1b[{n}A", f"\x1b[{n}B", f"\x1b[{n}C", f"\x1b[{n}D", f"\x1b[{n}E", f"\x1b[{n}F", f"\x1b[{x}G"]
    some += [f"\x1b[{y}d", "\x1b[H"]
    if not common:
        some += [f"\x1b[{x}`", f"\x1b[{n}I", f"\x1b[{n}Z", f"\x1b[{n}a", f"\x1b[{n}e"]
    return random.choice(some)


def _edit(random: Random, rows: int, common: bool) -> str:
    n = random.choice(["", "1", "2", "3"] if common else ["", "1", "2", "3", "30"])
    some = [f"\x1b[{n}@", f"\x1b[{n}P", f"\x1b[{n}X", "\x1b[K", "\x1b[1K", "\x1b[2K", "\x1b[J"]
    if common:
        y = random.randint(1, rows)
        some += [f"\x1b[r\x1b[{y};1H\x1b[{n}L", f"\x1b[r\x1b[{y};1H\x1b[{n}M"]
    else:
        some += [f"\x1b[{n}L", f"\x1b[{n}M"]
        some += [f"\x1b[{n}S", f"\x1b[{n}T", "\x1b[2J", f"z\x1b[{n}b", "\x1b[1;1H\x1b[1J", "\x1bD", "\x1bM", "\x1bE"]
        some += [f"\x1b[{n} @", f"\x1b[{n} A", f"\x1b[{n}'}}", f"\x1b[{n}'~"]
    return random.choice(some)


def _state(random: Random, rows: int, common: bool) -> str:
    top = random.randint(1, max(1, rows - 2))
    bottom = random.randint(top + 1, rows)
    some = [f"\x1b[{top};{bottom}r", "\x1b[r", f"\x1b(0{random.choice(_GRAPHICS)}\x1b(B", "\x1b[?25l", "\x1b[?25h"]
    some += ["\x1b]2;a title\x07", "\x1b]0;another\x1b\\", "\x1b[?2004h", "\x1b[?1h\x1b=", "\x1b[?1002;1006h"]
    some += ["\x1b[0m\x1b[?1049h", "\x1b[?1049h\x1b[?1049l\x1b[0m", "\x1b[4hput in\x1b[4l"]
    if not common:
        some += ["\x1b[?7l" + "cut " * 20 + "\x1b[?7h"]
        some += [
            "\x1b7\x1b[1;1H\x1b[7mkept\x1b8",
            "\x1b[s\x1b[2;1H\x1b(0\x1b[31mq\x1b[u",
            "\x1b[?6h",
            "\x1b[?6l",
            "\x1b(0",
            "\x1b(B",
            "\x0e",
            "\x0f",
            "\x1b)0",
        ]
        some += [
            "\x1bH",
            "\x1b[g",
            "\x1b[3g",
            "\x1b[20l",
            "\x1b[!p\x1b[?2004l",
            "\x1b[0m\x1b#8",
            "\x1b[?47h",
            "\x1b[?47l",
            "\x1b[3J",
        ]
        some += [
            "\x1b]8;;http://a.example/\x1b\\link\x1b]8;;\x1b\\",
            "\x1b[?1l\x1b>",
            "\x1b[?2004l",
            "\x1b[?45h",
            "\x1b[?45l",
        ]
        some += ["\x1bc\x1b[?25h\x1b]2;again\x07"]
    return random.choice(some)
