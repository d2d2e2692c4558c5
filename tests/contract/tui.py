"""A CLI on a terminal: the typing and waiting that all of them share, and what each does in its own way."""

from __future__ import annotations

import re
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path

from tests.contract.homes import Home
from tests.contract.model_calls import Call, Kind
from tests.contract.model_server import ModelServer
from tests.contract.processes import Proc, descendants
from tests.contract.window import Window

ESCAPE, CTRL_C = "\x1b", "\x03"
READY_SECONDS = TURN_SECONDS = 180.0
"""Bounds for a busy machine: a start takes a processor for up to eight seconds, and there may be ten at once."""
_EQUAL_LOOKS = 3
_LOOK_SECONDS = 0.05
_MOST_LOOKS = 200


class Unsupported(Exception):
    """The CLI has no such feature; the message says what it has instead."""


class Tui:
    """A CLI that runs on a terminal of ours. Use as a context manager: nothing of it is left at the end."""

    compact_command = "/compact"
    compaction_end: str
    """What stands in the log once a compaction is complete."""
    compacted: str
    """What the screen shows then, as a pattern with one group."""
    gives_prompt_back = False
    """Whether Escape puts the prompt of the turn that it ends into the input line."""
    turn_end: str
    """What stands in the log after an answer, once its turn has ended."""
    request_mark: str
    """What stands in the log after a prompt, once the model is asked; "" if nothing does."""
    agents_run_beside = False
    """Whether a turn ends before the sub-agent that it started."""
    answering = "SLOWLY"
    """What the screen shows as soon as a slow answer has begun."""

    def __init__(self, terminal: Window, server: ModelServer, home: Home) -> None:
        self.terminal = terminal
        self.server = server
        self.home = home

    def __enter__(self) -> Tui:
        return self

    def __exit__(self, *_: object) -> None:
        self.terminal.end()

    # What each CLI does in its own way.

    @abstractmethod
    def wait_ready(self) -> None:
        """Waits until it takes input, answering its first questions (trust this folder?)."""

    @abstractmethod
    def input_text(self, screen: str) -> str | None:
        """What stands in the input line; "" if empty or a placeholder, None if there is no such line."""

    @abstractmethod
    def logs(self) -> Iterable[Path]:
        """The files in which the CLI writes down what happens in its sessions."""

    @abstractmethod
    def is_mine(self, proc: Proc) -> bool:
        """Whether this process is one of the CLI's own levels, not something it started."""

    @abstractmethod
    def new_session(self) -> str:
        """Starts a new session in the same process, and returns its id."""

    @abstractmethod
    def fork(self) -> str:
        """Forks the session, and returns the id of the fork. Which one is then served depends on the CLI."""

    @abstractmethod
    def undo(self) -> str:
        """Takes back the last turn, and returns the id of the session that is served then."""

    @abstractmethod
    def switch_to(self, session_id: str) -> None:
        """Goes to another session of this work directory, in the same process."""

    # What is the same for all, or nearly so.

    def is_idle_after(self, call: Call) -> bool:
        """Whether the end of the turn that `call` belongs to is on disk: the screen shows it earlier."""
        return self.is_written(call.completion_id, self.turn_end)

    def is_written(self, text: str, after: str) -> bool:
        """Whether a log has a line with this very string, and the other word behind it, on whole lines."""
        wholes = (log.read_text(errors="replace").rpartition("\n")[0] for log in self.logs())
        return any(found and after in rest for _, found, rest in (whole.partition(f'"{text}"') for whole in wholes))

    def serving_pid(self) -> int:
        """The process that holds the conversation: the last of the CLI's own levels below the terminal.

        A child that it has just forked, and that is not yet the program it is to become, is none of them.
        """
        looks = [self._find_serving()]
        for _ in range(_MOST_LOOKS):
            time.sleep(_LOOK_SECONDS)
            looks.append(self._find_serving())
            if len(looks) >= _EQUAL_LOOKS and len(set(looks[-_EQUAL_LOOKS:])) == 1:
                return looks[-1]
        raise TimeoutError(f"no process stays the last one: {looks}")

    def _find_serving(self) -> int:
        below_terminal = descendants(self.terminal.pid)
        levels = below_terminal[:1]
        for level in levels:
            children = (proc for proc in below_terminal if proc.ppid == level.pid and not proc.is_copy)
            # In a container of its own, the CLI is the child of what made that.
            below = children if level.comm == "unshare" else filter(self.is_mine, children)
            levels.extend(sorted(below, key=lambda proc: proc.start_ticks)[:1])
        if not levels:
            raise ProcessLookupError(f"pid {self.terminal.pid} is gone")
        return levels[-1].pid

    def prompt(self, text: str, *, timeout: float = TURN_SECONDS) -> Call:
        """Sends a prompt and waits for the end of its turn. Returns the call that gave the final answer."""
        first = self.prompt_no_wait(text)
        return self.wait_answer(first, timeout=timeout)

    def prompt_no_wait(self, text: str) -> Call:
        """Sends a prompt and waits only until the model was asked. Returns that call."""
        before = len(self.server.requests)
        self.type_line(text)
        return self.wait_call(
            lambda call: call.number > before and call.kind is Kind.TURN and call.prompt == text, TURN_SECONDS
        )

    def wait_answer(self, first: Call, *, timeout: float = TURN_SECONDS) -> Call:
        """Waits for the end of the turn that began with this call. Returns the call with the final answer."""
        last = self.wait_call(
            lambda call: call.number >= first.number and call.kind is Kind.TURN and call.done and bool(call.answer),
            timeout,
        )
        self.wait_idle(last, timeout)
        return last

    def wait_idle(self, last: Call, timeout: float = TURN_SECONDS) -> None:
        """Waits for the end of the turn that this call answers: on the screen, then on disk."""
        self.terminal.wait_screen(f"ANSWER {last.number} saw", timeout)
        self.wait_until(lambda: self.is_idle_after(last), "the end of the turn", timeout)

    def hang_up(self, call: Call, key: str) -> None:
        """Presses a key until the CLI has ended this call, and waits until it takes input again."""
        for _ in range(6):
            self.terminal.send(key)
            try:
                self.server.wait_for(lambda each: each.number == call.number and each.done, 10)
            except TimeoutError:  # a key that comes before the CLI listens is lost
                continue
            return
        self.terminal.wait_screen(lambda _: False, 0, what=f"call {call.number} to be ended by {key!r}")

    def wait_call(self, predicate: Callable[[Call], bool], timeout: float) -> Call:
        """Waits for a call to the model; if it does not come, shows the screen too."""
        try:
            return self.server.wait_for(predicate, timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}\nthe screen shows:\n{self.terminal.screen()}") from None

    def quit(self) -> int:
        """Leaves by the CLI's own command, and returns its exit code."""
        self.type_line("/quit")
        return self.terminal.wait_exit()

    def type_line(self, text: str) -> None:
        """Types a line, waits until the input shows it, then presses Enter.

        Text and Enter in one write would be taken for a paste by some of them.
        """
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="an empty input line")
        self._type(text)
        for _ in range(5):
            self.terminal.send("\r")
            try:
                self.terminal.wait_screen(
                    lambda screen: squeezed(text) not in squeezed(self.input_text(screen) or ""),
                    3,
                    what="the line taken",
                )
            except TimeoutError:  # it may not listen yet
                continue
            return
        self.terminal.wait_screen(lambda _: False, 0, what=f"{text!r} to be taken after Enter")

    def _type(self, text: str) -> None:
        """Types until the input line shows it: on a busy machine a CLI that draws its input line may lose keys."""
        for _ in range(4):
            self.terminal.send(text)
            try:
                self.terminal.wait_screen(lambda screen: self._is_typed(screen, text), 5, what="text in the input line")
            except TimeoutError:
                if self.input_text(self.terminal.screen()):
                    self.clear_input()
                continue
            return
        self.terminal.wait_screen(lambda screen: self._is_typed(screen, text), what=f"{text!r} in the input line")

    def _is_typed(self, screen: str, text: str) -> bool:
        shown, wanted = squeezed(self.input_text(screen) or ""), squeezed(text)
        return wanted in shown and 2 * wanted not in shown

    def clear_input(self) -> None:
        """Deletes what stands in the input line, such as the prompt that an undo puts there."""
        self.terminal.wait_screen(lambda screen: bool(self.input_text(screen)), what="text in the input line")
        for _ in range(6):
            self.terminal.send("\x7f" * len(self.input_text(self.terminal.screen()) or ""))
            try:
                self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", 5, what="an empty input line")
            except TimeoutError:  # keys that come while it draws what was put back are lost
                continue
            return
        self.terminal.wait_screen(lambda screen: self.input_text(screen) == "", what="an empty input line")

    def press_until(self, key: str, is_done: Callable[[str], bool], what: str) -> None:
        """A dialog that has just been drawn may not listen yet, on a busy machine: then the key is lost."""
        for _ in range(5):
            self.terminal.send(key)
            try:
                self.terminal.wait_screen(is_done, 10, what=what)
            except TimeoutError:
                continue
            return
        self.terminal.wait_screen(is_done, what=what)

    def pick(self, wanted: str) -> None:
        """In a list with two-line entries, takes the one whose two lines have this text."""
        seen: list[str] = []
        for _ in range(100):
            chosen = self.terminal.wait_screen(lambda screen: _chosen(screen) not in (*seen[-1:], ""), what="a list")
            if wanted in _chosen(chosen):
                self.terminal.send("\r")
                return
            seen.append(_chosen(chosen))
            self.terminal.send("\x1b[B")
        raise LookupError(f"{wanted} is not in the list: {seen}")

    def wait_printed(self, pattern: str, since: int, timeout: float = TURN_SECONDS) -> str:
        """Waits until a match was printed since the mark, and returns the group of the last one."""
        found: list[str] = []

        def look() -> bool:
            found[:] = re.findall(pattern, self.terminal.text_since(since))
            return bool(found)

        self.wait_until(look, f"/{pattern}/ printed", timeout)
        return found[-1]

    def wait_until(self, predicate: Callable[[], bool], what: str, timeout: float = TURN_SECONDS) -> None:
        """Waits for something that is not on the screen; shows the screen if it does not come."""
        self.terminal.wait_screen(lambda _: predicate(), timeout, what=what)


def _chosen(screen: str) -> str:
    lines = screen.split("\n")
    marked = [number for number, line in enumerate(lines) if "❯" in line]
    return "\n".join(lines[marked[-1] : marked[-1] + 2]) if marked else ""


def squeezed(text: str) -> str:
    """The text without blanks and frames, so that a wrapped line compares equal."""
    return re.sub(r"[\s│]+", "", text)
