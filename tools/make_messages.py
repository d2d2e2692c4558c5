"""Writes docs/messages.md, every message of CLI and API in one list: `python tools/make_messages.py [--check]`."""

from __future__ import annotations

import ast
import re
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "corral"
PAGE = ROOT / "docs" / "messages.md"
HEAD = """\
# Messages

Every error, refusal and reason that corral gives, with its hints, to be read as a whole.
`tools/make_messages.py` makes this page from the source: change a message there, and run the tool.
What is in braces is filled in; `…` is something longer.
"""
WIDTH = 100
LONGEST_NAME = 24
"""Of what is filled in: anything longer is an expression, which says nothing to a reader."""
ERRORS = {
    "AlreadyRunning", "Ambiguous", "ConfigUnreadable", "CorralError", "EditRefused", "NotEnded", "NotFound",
    "NotOpened", "NotReachable", "ProtocolError", "Refused", "Refusing", "SidecarError", "Silent", "StartFailed",
}  # fmt: skip
"""Exceptions and values whose words reach a person, however short they are and whatever their arguments are called."""
MESSAGES = ("message", "reason", "problem", "silence", "conflict")
HINTS = ("hint", "remedy", "advice")
SENTENCE = 3
"""How many plain words make a sentence, wherever else it is said: reasons, lines that are printed or logged."""
WORD = re.compile(r"(?<!\S)[A-Za-z]?[a-z']+[.;:?)]?(?!\S)")
NO_SENTENCES = {"add_argument", "add_parser", "Endpoint", "route", "TypeError", "ValueError", "View", "Column"}
"""Help texts, the routes of the API, the views of SQL and what only a bug raises have pages of their own."""
NO_MESSAGES = {"__init__", "demo.conversation", "cli.completion", "server.openapi", "usage.sql_views"}
SQL = re.compile(
    r"\b(SELECT|INSERT|CREATE|UPDATE [a-z]|DELETE FROM|PRAGMA|PRIMARY KEY|WHERE|VALUES|NOT NULL|JOIN|CASE|IS NULL)\b"
)


class Message(NamedTuple):
    """One sentence, and what it advises."""

    line: int
    text: str
    hints: tuple[str, ...]


def main() -> int:
    text = render()
    if "--check" in sys.argv[1:]:
        return 0 if PAGE.is_file() and PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


def render() -> str:
    """The whole page: a heading for each room, one for each of its files, and their messages in order."""
    lines = [HEAD]
    room = None
    for path in sorted(SOURCE.rglob("*.py"), key=lambda one: (one.parent, one.stem)):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found = list_messages(ast.parse(path.read_text())) if ".".join(parts) not in NO_MESSAGES else []
        if not found:
            continue
        if parts[0] != room:
            room = parts[0]
            lines += [f"## {room}", ""]
        lines += [f"### {'.'.join(parts)}", "", *(line for one in found for line in _list(one)), ""]
    return "\n".join(lines).rstrip() + "\n"


def _list(message: Message) -> list[str]:
    lines = _wrap(message.text, "- ") if message.text else []
    return lines + [line for hint in message.hints for line in _wrap(hint, "  - " if lines else "- hint: ")]


def _wrap(text: str, begin: str) -> list[str]:
    later = " " * (begin.index("-") + 2)
    return textwrap.wrap(
        _escape(text), WIDTH, initial_indent=begin, subsequent_indent=later,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def _escape(text: str) -> str:
    """As text in Markdown, on one line."""
    return " ".join(text.split()).replace("<", "\\<").replace("*", "\\*").replace("_", "\\_").replace("|", "\\|")


def list_messages(tree: ast.Module) -> list[Message]:
    """In the order of the file; the same one once."""
    constants = {
        target.id: one.value
        for one in tree.body
        if isinstance(one, ast.Assign)
        for target in one.targets
        if isinstance(target, ast.Name)
    }
    found = list(_find_errors(tree, constants))
    known = {text for one in found for text in (one.text, *one.hints)}
    found += [one for one in _find_sentences(tree) if one.text not in known]
    unique = {(one.text, one.hints): one for one in sorted(found, reverse=True)}
    return sorted(unique.values())


def _find_errors(tree: ast.Module, constants: dict[str, ast.expr]) -> Iterator[Message]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = _name(node)
        keywords = {one.arg: one.value for one in node.keywords if one.arg}
        said = [keywords[key] for key in MESSAGES if key in keywords]
        advised = [keywords[key] for key in HINTS if key in keywords]
        if name in ERRORS:
            said += node.args[:1] if name != "Refusing" else node.args[2:3]
            advised += node.args[1:] if name != "Refusing" else node.args[3:4]
        texts = [text for one in said for text in _texts(one, constants) if " " in text]
        hints = tuple(text for one in advised for text in _texts(one, constants) if " " in text)
        if texts or hints:
            for text in texts[:-1]:
                yield Message(node.lineno, text, ())
            yield Message(node.lineno, texts[-1] if texts else "", hints)


def _find_sentences(node: ast.AST) -> Iterator[Message]:
    """Whatever else reads as a sentence, except documentation."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.Call() if _name(child) in NO_SENTENCES:
                pass
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Constant() | ast.JoinedStr():
                for text in _texts(child, {}):
                    if len(WORD.findall(text)) >= SENTENCE and "\n" not in text and not SQL.search(text):
                        yield Message(child.lineno, text, ())
            case _:
                yield from _find_sentences(child)


def _name(call: ast.Call) -> str:
    return call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")


def _texts(node: ast.expr, constants: dict[str, ast.expr]) -> list[str]:
    """All that an expression can say: both sides of a choice, each item of a list, a constant by its name."""
    match node:
        case ast.Constant(value=str(text)):
            return [text]
        case ast.JoinedStr(values=values):
            return ["".join(_fill(one) for one in values)]
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = (_texts(one, constants) or ["…"] for one in (left, right))
            return [before + after for before in first for after in second]
        case ast.IfExp(body=body, orelse=other):
            return _texts(body, constants) + _texts(other, constants)
        case ast.BoolOp(values=values) | ast.Tuple(elts=values) | ast.List(elts=values):
            return [text for one in values for text in _texts(one, constants)]
        case ast.Starred(value=value):
            return _texts(value, constants)
        case ast.Call(func=ast.Name(id="Command"), args=[value, *_]):
            return _texts(value, constants)
        case ast.Name(id=name) if name in constants and name.isupper():
            return _texts(constants[name], {})
        case _:
            return []


def _fill(part: ast.expr) -> str:
    match part:
        case ast.Constant(value=str(text)):
            return text
        case ast.FormattedValue(value=value):
            said = ast.unparse(value)
            return f"{{{said}}}" if len(said) <= LONGEST_NAME and said.replace(".", "").isidentifier() else "…"
        case _:
            return "…"


if __name__ == "__main__":
    sys.exit(main())
