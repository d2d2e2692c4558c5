"""A program's output taken apart into text, controls and sequences, however it is cut. Standard library only.

It follows the state machine of https://vt100.net/emu/dec_ansi_parser as the page's engine has it (xterm.js 6.0.0):
bytes that are no UTF-8 are dropped, sequences may be cut off and may have controls within.
"""

from __future__ import annotations

import re
from typing import Protocol


class Sink(Protocol):
    """What obeys the output."""

    def print(self, text: str) -> None: ...
    def begin_line(self) -> None:
        """Carriage return and line feed."""
        ...

    def obey(self, control: str) -> None: ...
    def control(self, prefix: str, words: str, between: str, final: str) -> None: ...
    def escape(self, between: str, final: str) -> None: ...
    def command(self, number: str, words: str) -> None: ...
    def end_cluster(self) -> None:
        """What is printed next joins nothing that was printed before."""
        ...


# Bytes that are no UTF-8, which are lone surrogates here, and byte order marks are passed over everywhere.
_DROPPED = r"\udc80-\udcff\ufeff"
_TOKEN = re.compile(
    rf"([^\x00-\x1f\x7f-\x9f{_DROPPED}]+)|(\r\n)"
    r"|\x1b\[([<-?]?)([0-9;:]*)([ -/]*)([@-~])"
    rf"|\x1b\]([0-9]+)(?:;([^\x00-\x1f\x80-\x9f{_DROPPED}]*))?(?:\x07|\x1b\\)"
    r"|\x1b([ -/]*)([0-OQ-WYZ\\`-~])|([\x00-\x1a\x1c-\x1f])|([\x1b\x80-\x9f])"
)
"""Sequences that are whole and have nothing within; the last group is the beginning of any other."""
_TEXT, _NEWLINE, _CSI, _OSC_ALONE, _OSC, _ESC, _CONTROL, _OTHER = 1, 2, 6, 7, 8, 10, 11, 12

_WITHIN = rf"\x00-\x17\x19\x1c-\x1f\x7f{_DROPPED}"
"""Passed over in every sequence; controls among them are obeyed unless it is a string."""
_ESC_BODY = re.compile(rf"[{_WITHIN} -/]*")
_CSI_BODY = re.compile(rf"[{_WITHIN} -?]*")
_CSI_IGNORED = re.compile(r"[^\x18\x1a\x1b@-~\x80-\x9f]*")
_WORDS = re.compile(r"([<-?]?)([0-9;:]*)([ -/]*)")
_OSC_BODY = re.compile(r"[^\x07\x18\x1a\x1b\x80-\x9f]*")
_DCS_BODY = re.compile(r"[^\x18\x1a\x1b\x80-\x9f]*")
_NO_STRING = re.compile(rf"[{_WITHIN}\x07 -~]*")
_NOT_IN_WORDS = re.compile(rf"[{_WITHIN}]+")
_NOT_IN_COMMANDS = re.compile(rf"[\x00-\x1f{_DROPPED}]+")
_INTRODUCERS = {"\x90": "P", "\x98": "X", "\x9b": "[", "\x9d": "]", "\x9e": "^", "\x9f": "_"}
_UNFINISHED = re.compile(rb"(?:[\xc0-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf7][\x80-\xbf]{0,2})\Z")
_LONGEST = 1 << 16
"""Characters of a sequence that are waited for; of a longer one only its end."""
_GOES_ON = {"]": "\x1b]9999;", "P": "\x1bP9999z", "[": "\x1b[??"}
"""What begins a sequence that does nothing, by its kind."""
_CUT_OFF = -1


class Parser:
    """Fed with all output in order."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._rest = b""
        """The beginning of a sequence or of a character."""
        self._begun = ""
        """Of a sequence that is too long: what stands for its beginning."""

    @property
    def incomplete_bytes(self) -> int:
        """How far back a sequence or a character began that is not complete yet."""
        return len(self._rest)

    @property
    def begun(self) -> bytes:
        """What stands for the beginning of a sequence that is gone: what follows up to its end is no text."""
        return self._begun.encode()

    @property
    def is_between(self) -> bool:
        """Whether nothing is incomplete."""
        return not self._rest and not self._begun

    def feed(self, data: bytes) -> None:
        begun = self._begun
        if begun or self._rest:
            data = begun.encode() + self._rest + data
        unfinished = _UNFINISHED.search(data, max(0, len(data) - 3))
        cut = len(data) if unfinished is None else unfinished.start()
        text = data[:cut].decode("utf-8", "surrogateescape")
        end = self._take(text)
        self._rest = data[cut:]
        if begun and not end:
            return
        self._begun = ""
        if len(text) - end > _LONGEST:
            self._begun = _GOES_ON.get(text[end + 1] if text[end] == "\x1b" else _INTRODUCERS[text[end]], "\x1b_")
        elif end < len(text):
            self._rest = text[end:].encode("utf-8", "surrogateescape") + self._rest

    def _take(self, text: str) -> int:
        """Up to where it was read; what follows is incomplete."""
        sink = self._sink
        at = 0
        while at < len(text):
            for found in _TOKEN.finditer(text, at):
                kind = found.lastindex
                if kind == _TEXT:
                    sink.print(found[1])
                elif kind == _CSI:
                    sink.control(found[3], found[4], found[5], found[6])
                elif kind == _NEWLINE:
                    sink.begin_line()
                elif kind == _CONTROL:
                    sink.obey(found[11])
                elif kind == _ESC:
                    sink.escape(found[9], found[10])
                elif kind == _OTHER:
                    start = found.start()
                    at = self._read_other(text, start)
                    if at == _CUT_OFF:
                        return start
                    break
                else:
                    sink.command(found[7], found[8] or "")
            else:
                break
        return len(text)

    # --- sequences that are cut off, or have something within. None of it is obeyed before its end is there.

    def _read_other(self, text: str, at: int) -> int:
        """Where the rest of the text begins."""
        if text[at] != "\x1b":
            kind = _INTRODUCERS.get(text[at])
            if kind is None:
                self._sink.obey(text[at])
                return at + 1
            return self._read_kind(text, at + 1, kind, "")
        end = _pass(_ESC_BODY, text, at + 1)
        if end == len(text):
            return _CUT_OFF
        body, final = text[at + 1 : end], text[end]
        between = _NOT_IN_WORDS.sub("", body)
        if not between and final in "[]PX^_":
            return self._read_kind(text, end + 1, final, body)
        self._obey_within(body)
        if "0" <= final <= "~":
            self._sink.escape(between, final)
        return end + (final > "\x1b" and not "\x80" <= final <= "\x9f")

    def _read_kind(self, text: str, at: int, kind: str, before: str) -> int:
        if kind == "[":
            return self._read_control(text, at, before)
        if kind == "]":
            return self._read_command(text, at, before)
        end = _pass(_NO_STRING, text, at) if kind != "P" else self._find_end(text, at)
        if end == len(text):
            return _CUT_OFF
        self._obey_within(before)
        if kind == "P":
            self._sink.end_cluster()
        # The page's engine ends such a string, but not that of a device control, at the first other letter.
        return end + (text[end] == "\x9c" or text[end] > "\x9f")

    def _find_end(self, text: str, at: int) -> int:
        """Of a device control string."""
        end = _pass(_CSI_BODY, text, at)
        words = _NOT_IN_WORDS.sub("", text[at:end])
        if end == len(text) or (text[end] > "\x9f" and _WORDS.fullmatch(words)):
            return end
        return _pass(_DCS_BODY, text, end)

    def _read_control(self, text: str, at: int, before: str) -> int:
        end = _pass(_CSI_BODY, text, at)
        words = _WORDS.fullmatch(_NOT_IN_WORDS.sub("", text[at:end]))
        if words is None:
            end = _pass(_CSI_IGNORED, text, end)
        if end == len(text):
            return _CUT_OFF
        self._obey_within(before + text[at:end])
        final = text[end]
        if "@" <= final <= "~":
            if words is not None:
                self._sink.control(words[1], words[2], words[3], final)
            return end + 1
        return end + (final > "\x9f")

    def _read_command(self, text: str, at: int, before: str) -> int:
        end = _pass(_OSC_BODY, text, at)
        if end == len(text):
            return _CUT_OFF
        self._obey_within(before)
        final = text[end]
        number, _, words = _NOT_IN_COMMANDS.sub("", text[at:end]).partition(";")
        if final in "\x07\x1b\x9c" and number.isdigit() and number.isascii():
            self._sink.command(number, words)
        self._sink.end_cluster()
        return end + (final in "\x07\x9c")

    def _obey_within(self, body: str) -> None:
        for sign in body:
            if sign < " ":
                self._sink.obey(sign)


def _pass(pattern: re.Pattern[str], text: str, at: int) -> int:
    """Over what matches there."""
    found = pattern.match(text, at)
    return at if found is None else found.end()
