"""A small agent that embeds corral.sidecar: a chat loop in Kimi CLI's file format, with an echo for a model.

    python -m corral.demo.reference_agent --home /tmp/agent-home --work-dir .

It shows the four moments at which a CLI reports: start, switch, every event, quit. It is a real process with
real session files, so that tests and the demo need no network and no account. Its home must be empty or made by
this program, and is never a real ~/.kimi.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

from corral import sidecar
from corral.demo.conversation import HANG, Home, Session, append, begin_slow_turn, take_turn

VERSION = "1.51.0"
COMMANDS = "/new  /fork  /undo  /sessions [ID]  /ask QUESTION  /slow WORDS  /print JSON_STRING  /flood LINES  /quit"


class Agent:
    """The loop. To embed the sidecar, look at the four lines that call `self.claim`."""

    def __init__(self, home: Home, session: Session) -> None:
        self.home = home
        self.session = session
        self.question: str | None = None
        """The id of a question that waits for the person's next line."""
        # Start: say which process serves which session. A problem is kept in claim.problem, never raised.
        self.claim = sidecar.claim(
            session.path,
            session_id=session.id,
            work_dir=home.work_dir,
            cli="kimi-cli",
            version=VERSION,
            provider="kimi-cli",
        )

    def move_to(self, session: Session) -> str:
        self.session = session
        # Switch: the old file is cleared, then the new one written.
        self.claim.switch(session.path, session.id)
        return f"session {session.id}"

    def answer(self, line: str) -> str:
        # Every event: takes the file over if another process held it and died.
        if self.claim.problem is not None:
            self.claim.refresh()
        if self.question is not None:
            return self.take_reply(line)
        match line.split():
            case ["/ask", *words] if words:
                return self.ask(" ".join(words))
            case ["/slow", *words] if words:
                return begin_slow_turn(self.session, " ".join(words))
            case ["/print", *_]:
                return str(json.loads(line.removeprefix("/print")))
            case ["/flood", lines] if lines.isdecimal():
                return "\n".join(f"line {number} of {lines}" for number in range(1, int(lines) + 1))
            case ["/new"]:
                return self.move_to(Session(self.home, str(uuid.uuid4())).create())
            case ["/fork"]:
                fork = self.session.copy_to(Session(self.home, str(uuid.uuid4())))
                fork.set_title(f"Fork: {self.session.title or 'Untitled'}")
                return self.move_to(fork)
            case ["/undo"]:
                return self.move_to(self.session.copy_to(Session(self.home, str(uuid.uuid4())), without_last_turn=True))
            case ["/sessions"]:
                return "\n".join(self.home.session_ids())
            case ["/sessions", session_id] if session_id in self.home.session_ids():
                return self.move_to(Session(self.home, session_id))
            case ["/sessions", session_id]:
                return f"no session {session_id}"
            case [command, *_] if command.startswith("/"):
                return f"unknown command {command}; there are {COMMANDS}"
            case _:
                return take_turn(self.session, line)

    def ask(self, question: str) -> str:
        """A turn in which the model asks the person, as Kimi CLI logs it; the next line is the answer."""
        if self.session.title is None:
            self.session.set_title(question[:50])
        self.question = f"ask-{self.session.count('user')}"
        self.session.emit("TurnBegin", user_input=question)
        append(self.session.context, {"role": "user", "content": question})
        self.session.emit("StepBegin", n=1)
        self.session.emit("QuestionRequest", tool_call_id=self.question, questions=[{"question": question}])
        return f"? {question}"

    def take_reply(self, line: str) -> str:
        self.session.emit("ToolResult", tool_call_id=self.question)
        self.session.emit("TurnEnd")
        self.question = None
        return f"you said: {line}"

    def quit(self) -> None:
        self.home.register(self.session.id)
        # Quit: the file stays, as the protocol says; readers verify that the process is gone.
        self.claim.release()


def replay(session: Session) -> Iterator[str]:
    """What was said before, as Kimi CLI shows it when it resumes."""
    said = session.said()
    for role, words in said:
        yield f"> {words}" if role == "user" else f"{words}\n"
    if said and said[-1][0] == "user":
        yield "(no answer: this turn never ended)\n"


def read_lines(slow: bool) -> Iterator[str]:
    """The person's lines up to /quit or the end of input; in slow mode each of them hangs the agent."""
    while True:
        print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line or line.strip() == "/quit":
            return
        if line := line.strip():
            yield f"{HANG} {line}" if slow and not line.startswith("/") else line


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], epilog=f"commands: {COMMANDS}")
    parser.add_argument("--home", type=Path, required=True, help="data root: empty, new, or made by this program")
    parser.add_argument("--version", action="version", version=f"kimi, version {VERSION}", help="as Kimi CLI says it")
    parser.add_argument(
        "-w", "--work-dir", type=Path, default=Path.cwd(), help="where the session works (default: here)"
    )
    parser.add_argument("--session", metavar="ID", help="resume this session, or start one of this id")
    parser.add_argument("--slow", action="store_true", help=f"every turn hangs, not only those with the word {HANG}")
    args = parser.parse_args()
    if args.session is not None and not sidecar.is_valid_id(args.session):
        parser.error(f"{args.session!r} is not a session id")
    home = Home(args.home, str(args.work_dir.resolve()))
    if (problem := home.prepare()) is not None:
        print(f"reference_agent: {problem}", file=sys.stderr)
        return 2
    agent = Agent(home, Session(home, args.session or str(uuid.uuid4())).create())
    print(f"session {agent.session.id} pid {os.getpid()}", flush=True)
    for line in replay(agent.session):
        print(line, flush=True)
    try:
        for line in read_lines(args.slow):
            print(agent.answer(line), flush=True)
    except KeyboardInterrupt:
        return 130  # as abrupt as a crash: the turn stays open, kimi.json is not updated
    agent.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
