"""Real processes that run the real hook program, in homes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from unittest import mock

import msgspec
import pytest

from corral.hooks.command import ProgramRecord, hook_command, place_program, program_path
from corral.hooks.install import install
from corral.hooks.journal import read_journals
from corral.hooks.program import bundle
from corral.hooks.settings import Setting
from corral.model.hook_install import Outcome
from corral.model.journal import Journal
from corral.providers.registry import find_provider
from corral.sessions.decide.claims import current_sessions

FAKE_CLI = str(Path(__file__).with_name("fake_cli.py"))
VARIABLES = {"kimi-cli": "KIMI_SHARE_DIR", "kimi-code": "KIMI_CODE_HOME", "qwen-code": "QWEN_HOME"}
COMMS = {"kimi-cli": "Kimi Code", "kimi-code": "kimi-code", "qwen-code": "node"}


@cache
def patient_program(lock_tries: int = 200) -> bytes:
    """The hook program in all but its patience: on a busy machine it gives up, and that is no defect."""
    patience = {
        "corral.hooks.program.main": (b"GIVE_UP_SECONDS = 4.0\n", b"GIVE_UP_SECONDS = 60.0\n"),
        "corral.hooks.program.journal_file": (b"LOCK_TRIES = 12\n", b"LOCK_TRIES = %d\n" % lock_tries),
    }
    sources = dict(bundle.list_sources())
    for name, (usual, patient) in patience.items():
        assert sources[name].count(usual) == 1
        sources[name] = sources[name].replace(usual, patient)
    with mock.patch.object(bundle, "list_sources", lambda: sources):
        return bundle.build_program()


class Cli:
    """One running stand-in for a CLI, with a home, a state directory and sessions on disk."""

    def __init__(
        self,
        world: World,
        provider: str,
        *,
        many: bool = False,
        comm: str | None = None,
        argument: str | None = None,
    ) -> None:
        self.world, self.provider = world, provider
        self.home = world.home(provider)
        command = hook_command(argument or provider, str(world.data), str(world.state))
        words = [sys.executable, FAKE_CLI, comm or COMMS[provider], command, "many" if many else "one"]
        self.process = subprocess.Popen(words, stdin=-1, stdout=-1, text=True)
        self.pid = self.process.pid
        self.env = {"HOME": str(world.root), "PATH": os.environ["PATH"], VARIABLES[provider]: str(self.home)}
        self.cwd = str(world.work)

    def session_dir(self, session_id: str, bucket: str = "b1") -> Path:
        path = self.home / "sessions" / bucket / session_id
        path.mkdir(parents=True, exist_ok=True)
        return path

    def send(self, *payloads: dict[str, object] | str, kill_after: float = 0.0) -> None:
        """Runs one hook process per payload, all at once; kills each after a while, in seconds."""
        texts = [payload if isinstance(payload, str) else json.dumps(payload) for payload in payloads]
        assert self.process.stdin and self.process.stdout
        request = {"payloads": texts, "env": self.env, "cwd": self.cwd, "kill_after": kill_after}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        results = json.loads(self.process.stdout.readline())
        assert kill_after or results == [[0, ""]] * len(payloads), results

    def payload(self, event: str, session_id: str, **more: object) -> dict[str, object]:
        extra = {"client_type": "kimi_code_cli", "model": "alias"} if self.provider == "kimi-code" else {}
        return {"hook_event_name": event, "session_id": session_id, "cwd": self.cwd, **extra, **more}

    def start(self, session_id: str, source: str = "startup", **more: object) -> None:
        self.session_dir(session_id)
        self.send(self.payload("SessionStart", session_id, source=source, **more))

    def end(self, session_id: str, reason: str = "exit") -> None:
        self.send(self.payload("SessionEnd", session_id, reason=reason))

    def beat(self, session_id: str) -> None:
        self.send(self.payload("SessionHeartbeat", session_id))

    @property
    def journal(self) -> Journal:
        found = [one for one in read_journals(str(self.world.state), self.provider) if isinstance(one, Journal)]
        return next(journal for journal in found if journal.identity.pid == self.pid)

    @property
    def current(self) -> list[str]:
        return [event.session_id for event in current_sessions(self.journal)]

    def holder(self, session_id: str) -> int | None:
        """The PID in the session's runtime.json."""
        try:
            return json.loads((self.session_dir(session_id) / "runtime.json").read_text())["pid"]
        except FileNotFoundError:
            return None

    def files(self) -> dict[str, int]:
        """Every runtime.json of the home: session → pid."""
        paths = sorted(self.home.glob("sessions/*/*/runtime.json"))
        return {path.parent.name: json.loads(path.read_text())["pid"] for path in paths}

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class World:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.state, self.data, self.work = root / "my state", root / "my data", root / "work"
        self.work.mkdir()
        place_program(str(self.data), str(self.root / "records"))
        Path(program_path(str(self.data))).write_bytes(patient_program())
        self._running: list[Cli] = []

    def home(self, provider: str) -> Path:
        path = self.root / f"home of {provider}"
        path.mkdir(exist_ok=True)
        return path

    def install(self, provider: str, versions: Sequence[str] = ()) -> None:
        """Our hooks in the home of this provider, as `corral hooks install` puts them there; but patient ones."""
        target = find_provider(provider).hooks()
        assert target is not None
        setting = Setting(
            target=target,
            home=str(self.home(provider)),
            state_dir=str(self.state),
            data_dir=str(self.data),
            versions=versions,
        )
        assert install(setting).outcome is Outcome.INSTALLED
        Path(program_path(str(self.data))).write_bytes(patient_program())
        record = self.state / "hooks" / "program.json"
        known = msgspec.json.decode(record.read_bytes(), type=ProgramRecord)
        record.write_bytes(msgspec.json.encode(msgspec.structs.replace(known, sha256=None)))  # any program will do

    def run(self, provider: str, **options: object) -> Cli:
        cli = Cli(self, provider, **options)  # type: ignore[arg-type]
        self._running.append(cli)
        return cli

    def close(self) -> None:
        for cli in self._running:
            cli.kill()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.close()
