"""A throw-away home for a made-up CLI, its running agents, and the survey that looks at them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import corral.providers
from corral.machine.processes import Process, ProcessTable
from corral.model.key import Home
from corral.model.known import Known
from corral.model.process import ProcessMode, Recognised
from corral.model.record import SessionRecord, TurnState
from corral.model.selection import Selection
from corral.model.session import Session, Survey
from corral.providers.contract import Capabilities, Environment, Programs, Provider, not_resumed
from corral.providers.registry import all_providers
from corral.sessions.survey import take_survey

NAME = "made-up"
CAPABILITIES = Capabilities(
    title="Made Up",
    program="made-up",
    picks_id=False,
    identified_by=("lock",),
    restore="none",
    proven_versions=(),
    home_variables=(),
    silent_s=None,
    needs_hooks=False,
)


@contextmanager
def registered(provider: Provider, folder: Path) -> Iterator[Provider]:
    """Found by every part of corral, as a package in a folder of providers is."""
    package = provider.name.replace("-", "_")
    (folder / package).mkdir(parents=True, exist_ok=True)
    (folder / package / "__init__.py").touch()
    module = ModuleType(f"corral.providers.{package}")
    module.__dict__["PROVIDER"] = provider
    sys.modules[module.__name__] = module
    corral.providers.__path__.append(str(folder))
    all_providers.cache_clear()
    try:
        yield provider
    finally:
        corral.providers.__path__.remove(str(folder))
        del sys.modules[module.__name__]
        all_providers.cache_clear()


def record(home: str, session_id: str, **more: Any) -> SessionRecord:
    fields: dict[str, Any] = {"work_dir": home, "title": None, "created_at": None, "updated_at": 1.0}
    fields |= {"provider": NAME, "home": home, "scope": "", "session_id": session_id, "path": f"{home}/{session_id}"}
    return SessionRecord(**(fields | {"durable": True, "turn": TurnState.ENDED} | more))


class Stage:
    """Sessions are the names in `<home>/sessions`, unless the provider under test says otherwise."""

    def __init__(self, root: Path) -> None:
        self.home = root / "made-up"
        (self.home / "sessions").mkdir(parents=True)
        self.modes: dict[int, ProcessMode] = {}
        """The agents that were started here, and how."""
        self._started: list[subprocess.Popen[str]] = []

    def provider(self, **parts: Any) -> Provider:
        own: dict[str, Any] = {
            "homes": self.homes,
            "list_sessions": self.list_sessions,
            "recognise": self.recognise,
            "plan_resume": not_resumed,
            "capabilities": CAPABILITIES,
        }
        return Provider(name=NAME, **(own | parts))

    def homes(self, env: Environment) -> list[Home]:
        return [Home(provider=NAME, path=str(self.home), is_default=True, origin="default")]

    def list_sessions(self, home: Home, known: Known) -> Iterator[SessionRecord]:
        return (record(home.path, path.name) for path in sorted((self.home / "sessions").iterdir()))

    def recognise(self, process: Process, table: ProcessTable) -> Recognised | None:
        if process.pid not in self.modes:
            return None
        return Recognised(
            provider=NAME,
            identity=process.identity,
            started_at=process.started_at,
            home=str(self.home),
            mode=self.modes[process.pid],
            group=process.pid,
            work_dir=process.cwd,
        )

    def install(self) -> Programs:
        """Its program on PATH: a command that belongs to an npm package."""
        package = self.home.parent / "node_modules" / NAME
        (package / "bin").mkdir(parents=True)
        (package / "package.json").write_text(f'{{"name": "{NAME}", "version": "1.0.0"}}')
        (package / "bin" / NAME).write_text("#!/bin/sh\n")
        (package / "bin" / NAME).chmod(0o755)
        os.environ["PATH"] = f"{package / 'bin'}:{os.environ['PATH']}"
        return Programs(commands=(NAME,), product=NAME)

    def add(self, *session_ids: str) -> None:
        for session_id in session_ids:
            (self.home / "sessions" / session_id).touch()

    def start(self, code: str, *words: str, mode: ProcessMode = ProcessMode.INTERACTIVE) -> int:
        """An agent that runs this, says so, and then waits for its end."""
        script = f"import sys\n{code}\nprint(flush=True)\nsys.stdin.read()"
        process = subprocess.Popen([sys.executable, "-c", script, *words], stdin=-1, stdout=-1, text=True)
        self._started.append(process)
        assert process.stdout and process.stdout.readline() == "\n"
        self.modes[process.pid] = mode
        return process.pid

    def look(self, provider: Provider, **selection: Any) -> Survey:
        return take_survey(Selection(**selection), [provider])

    def sessions(self, provider: Provider) -> dict[str, Session]:
        return {one.session_id: one for one in self.look(provider).sessions}

    def end(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()
