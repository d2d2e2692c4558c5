"""What an edit of somebody's configuration is made of: our entries, and the reason when it cannot be done."""

from __future__ import annotations

from msgspec import Struct


class Entry(Struct, frozen=True, order=True):
    """One hook of ours."""

    event: str
    command: str
    is_narrowed: bool = False
    """As found: it runs for some sessions only."""


class EditRefused(Exception):
    """The configuration stays as it is; the message says what is wrong with it, and where."""


class ConfigUnreadable(EditRefused):
    """There is something in its place, and no text can be had from it."""


def describe_fault(refusal: EditRefused) -> str:
    """Why hooks can neither be seen nor installed: a sentence for the person, who alone can mend it."""
    what = str(refusal) if isinstance(refusal, ConfigUnreadable) else f"does not parse: {refusal}"
    return f"the configuration {what}; corral leaves it as it is until you fix it"


def decode_config(data: bytes) -> str:
    """The text of a configuration; refuses what its CLI would not read either."""
    if data.startswith(b"\xef\xbb\xbf"):
        raise EditRefused("it begins with a byte order mark")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EditRefused(f"line {line}: not UTF-8") from error


def newline_of(text: str) -> str:
    """The line ending the text uses first."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"
