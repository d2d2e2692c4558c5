"""Which processes are a CLI's own, made from what its provider declares."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING

from msgspec import Struct

from corral.machine.processes import Process, ProcessTable
from corral.model.process import ProcessMode, Recognised

if TYPE_CHECKING:
    from corral.providers.kit.homes import HomePlace
    from corral.providers.kit.programs import Installed

_NODE_OPTIONS_WITH_VALUE = frozenset({"-r", "--require", "--import", "--loader", "--experimental-loader", "-C"})
_NODE_WITHOUT_SCRIPT = frozenset({"-e", "--eval", "-p", "--print", "-pe"})


class Modes(Struct, frozen=True, kw_only=True):
    """How a CLI is started: the words by which its command line shows it."""

    servers: frozenset[str] = frozenset()
    """Commands that serve several sessions, or options: any of these anywhere."""
    headless: frozenset[str] = frozenset()
    """Options: any of these makes it answer one prompt and end."""
    not_agents: frozenset[str] = frozenset()
    """Commands, and options that only print something, which serve no session."""
    with_value: frozenset[str] = frozenset()
    """Options that take the next word: it is not a command."""
    anywhere: bool = False
    """Which options take a value was not shown: a word counts wherever it is."""

    def find_command(self, words: Collection[str]) -> str | None:
        """The first word that is neither an option nor an option's value. What follows a prompt is the prompt."""
        rest = iter(words)
        for word in rest:
            if word in self.headless:
                return None
            if not word.startswith("-"):
                return word
            if word in self.with_value:
                next(rest, None)
        return None

    def find_options(self, words: Collection[str]) -> frozenset[str]:
        """Up to a `--`, without their values."""
        before = list(words)
        before = before[: before.index("--")] if "--" in before else before
        return frozenset(word.partition("=")[0] for word in before if word.startswith("-"))

    def decide(self, words: Collection[str]) -> ProcessMode | None:
        """Unknown without any word that shows it: a command line may be hidden. None: not an agent at all."""
        shown = frozenset(words) if self.anywhere else self.find_options(words) | {self.find_command(words)}
        if shown & self.servers:
            return ProcessMode.SERVER
        if shown & self.not_agents:
            return None
        return ProcessMode.HEADLESS if shown & self.headless else ProcessMode.UNKNOWN


class Cli(Struct, frozen=True, kw_only=True):
    """An agent CLI as it is installed and run, declared once."""

    name: str
    """The provider's."""
    package: str
    """In the registry that it is published in: others may have a command of the same name."""
    commands: tuple[str, ...]
    """Its names on PATH, in the order in which they are looked for."""
    home: HomePlace
    modes: Modes
    runtimes: frozenset[str]
    """What the kernel calls the processes that may run it."""

    def may_run(self, process: Process) -> bool:
        """Cheap, and asked of every process of the machine."""
        return process.comm in self.runtimes and not process.is_kernel and process.state not in {"Z", "X"}

    def recognise(
        self, process: Process, *, home: str | None, mode: ProcessMode, group: int, version: str | None
    ) -> Recognised:
        return Recognised(
            provider=self.name,
            identity=process.identity,
            started_at=process.started_at,
            home=home,
            mode=mode,
            group=group,
            terminal=process.terminal,
            version=version,
            work_dir=process.cwd,
        )


class NodeRun(Struct, frozen=True):
    """A script of an npm package that Node runs."""

    script: str
    """Its real path."""
    name: str
    """As it was called: a link has another name than what it leads to."""
    words: tuple[str, ...]
    """What follows it."""
    version: str | None
    """None when an update has removed the package under the running process."""


def find_node_run(process: Process, package: str, may_be: Callable[[str], bool]) -> NodeRun | None:
    """What Node was asked to run, if it is a script of that package; `may_be` looks at the path as it was given."""
    words = process.arguments[1:]
    position = 0
    while position < len(words) and words[position].startswith("-"):
        if words[position] in _NODE_WITHOUT_SCRIPT:
            return None
        position += 2 if words[position] in _NODE_OPTIONS_WITH_VALUE else 1
    if position >= len(words) or not may_be(words[position]):
        return None
    from corral.providers.kit.programs import find_npm_package

    script = os.path.realpath(os.path.join(process.cwd or "/", words[position]))
    installed = find_npm_package(script)
    # An update removes the package under a running process: then its path has to do.
    if installed.product != package if installed else f"/{package}/" not in script:
        return None
    name, version = words[position].rpartition("/")[2], installed.version if installed else None
    return NodeRun(script, name, words[position + 1 :], version)


def find_python_script(process: Process) -> str | None:
    """The script or module that Python was asked to run: what follows its own options; None where it is neither."""
    words = process.arguments
    rest = iter(words[1:] if words and "python" in os.path.basename(words[0]) else ())
    for word in rest:
        if word == "-m":
            return next(rest, None)
        if word == "-c":
            return None
        if word in {"-X", "-W"}:
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return None


def find_mapped_distribution(process: Process, package: str) -> Installed | None:
    """The Python distribution beside an extension module that it has mapped: those are where it runs from."""
    from corral.providers.kit.programs import find_python_distribution

    for path in process.mapped_files():
        before, found, _ = path.partition("/site-packages/")
        if found:
            return find_python_distribution(package, f"{before}/site-packages")
    return None


def find_top(process: Process, table: ProcessTable, is_mine: Callable[[Process], bool]) -> int:
    """The PID of the top-most of its launchers that are the same CLI; a nested run has a shell between."""
    top = process.pid
    for parent in table.ancestors(process):
        if not is_mine(parent):
            break
        top = parent.pid
    return top
