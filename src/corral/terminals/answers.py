"""What terminals say by themselves, told apart from what people type. Standard library only."""

from __future__ import annotations

_STRING_STARTS = b"]P_^X"


def strip_answers(data: bytes) -> bytes:
    """The input without a terminal's answers to queries and its focus reports; keys stay.

    Cursor position reports look like F3 with a modifier: `ESC [ 1 ; 2 R` counts as an answer.
    """
    if b"\x1b" not in data:
        return data
    kept: list[bytes] = []
    position = 0
    while (start := data.find(b"\x1b", position)) >= 0:
        kept.append(data[position:start])
        end = _find_end(data, start)
        if not _is_answer(data[start:end]):
            kept.append(data[start:end])
        position = end
    kept.append(data[position:])
    return b"".join(kept)


def _find_end(data: bytes, start: int) -> int:
    """The offset after the sequence that begins with the ESC at `start`."""
    kind = data[start + 1 : start + 2]
    if kind == b"[":
        for position in range(start + 2, len(data)):
            if not 0x20 <= data[position] <= 0x3F:
                return position + 1 if 0x40 <= data[position] <= 0x7E else position
        return len(data)
    if kind and kind in _STRING_STARTS:
        ends = [data.find(b"\x1b\\", start + 2) + 2, data.find(b"\x07", start + 2) + 1 if kind == b"]" else 0]
        return min((end for end in ends if end > start + 2), default=len(data))
    return start + 1


def _is_answer(sequence: bytes) -> bool:
    kind, body, final = sequence[1:2], sequence[2:-1], sequence[-1:]
    if kind and kind in _STRING_STARTS:
        # Nobody types these; Alt+] or Alt+P alone comes without an end.
        return len(sequence) > 2 and (sequence.endswith(b"\x1b\\") or final == b"\x07")
    if kind != b"[" or len(sequence) < 3:
        return False
    match final:
        case b"c" | b"u":  # device attributes, keyboard flags; a key event has no such prefix
            return body[:1] in (b"?", b">", b"=")
        case b"R":
            return b";" in body
        case b"n":
            return True
        case b"y":
            return b"$" in body
        case b"t" | b"x":
            return b";" in body
        case b"I" | b"O":
            return body == b""
        case _:
            return False
