"""A file that is written in place leaves its directory's time alone: a listing that knows the session sees it all the same.

Real files, and the real cache. Every file that a record rests on, for each provider.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from corral.model.key import Home
from corral.model.record import Resting, SessionRecord, Skipped
from corral.providers.registry import find_provider
from corral.sessions.cache import Cache

ID = "11111111-1111-4111-8111-111111111111"
UNSPOKEN = "22222222-2222-4222-8222-222222222222"
_KIMI_CLI = f"sessions/0123456789abcdef0123456789abcdef/{ID}"
_OLDER = _KIMI_CLI.replace("1111", "3333")
_KIMI_CODE = f"sessions/wd_app_b6c1126a8611/session_{ID}"
_QWEN = "projects/-src-app/chats"
_NOBODY = 65534
_SETTLES_S = 0.15


def _line(record: object) -> bytes:
    return json.dumps(record, separators=(",", ":")).encode() + b"\n"


def _runtime(session_id: str) -> bytes:
    record = {"schema_version": 1, "pid": 4711, "session_id": session_id, "work_dir": "/src/app"}
    return _line(record | {"hostname": "alpha", "started_at": 1_790_000_000.0})


def _prompt(session_id: str) -> bytes:
    """The first record of Qwen's transcript."""
    record = {"uuid": "u", "parentUuid": None, "sessionId": session_id, "type": "user", "cwd": "/src/app"}
    message = {"role": "user", "parts": [{"text": "alpha"}]}
    return _line(record | {"timestamp": "2026-11-15T19:23:23.476Z", "message": message})


_HISTORY = b'{"role": "user", "content": "alpha"}\n'
_TREES: dict[str, dict[str, bytes]] = {
    "kimi-cli": {
        "kimi.json": b'{"work_dirs": []}',
        f"{_KIMI_CLI}/wire.jsonl": _line(
            {"timestamp": 1.5e9, "message": {"type": "TurnBegin", "payload": {"user_input": "alpha"}}}
        ),
        f"{_KIMI_CLI}/context.jsonl": _HISTORY,
        f"{_KIMI_CLI}/state.json": b'{"custom_title": "alpha"}',
        f"{_KIMI_CLI}/runtime.json": _runtime(ID),
        f"{_OLDER}.jsonl": _HISTORY,
        f"{_OLDER}/state.json": b"{}",
    },
    "kimi-code": {
        f"{_KIMI_CODE}/agents/main/wire.jsonl": _line(
            {"type": "turn.prompt", "turnId": 1, "input": "alpha", "time": 1_790_000_000_000}
        ),
        f"{_KIMI_CODE}/state.json": _line({"id": f"session_{ID}", "cwd": "/src/app", "title": "alpha"}),
        f"{_KIMI_CODE}/runtime.json": _runtime(f"session_{ID}"),
    },
    "qwen-code": {
        f"{_QWEN}/{ID}.jsonl": _prompt(ID),
        f"{_QWEN}/{ID}.runtime.json": _runtime(ID),
        f"{_QWEN}/{UNSPOKEN}.runtime.json": _runtime(UNSPOKEN),
        f"{_QWEN}/archive/{ID.replace('1', '4')}.jsonl": _prompt(ID.replace("1", "4")),
    },
}
_FILES = [
    (name, file) for name, tree in _TREES.items() for file in tree if file not in ("kimi.json", f"{_OLDER}/state.json")
]


def _write_over(path: Path) -> None:
    """As `cp` does: the same inode, the same size, another content."""
    before = path.read_bytes()
    after = before.replace(b'"role": "user"', b'"role": "_usr"').replace(b"alpha", b"gamma")
    assert len(after) == len(before)
    assert after != before
    with path.open("r+b") as file:
        file.write(after)


def _write_over_unseen(path: Path) -> None:
    seen = path.stat()
    _write_over(path)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    assert path.stat().st_mtime_ns == seen.st_mtime_ns


def _truncate(path: Path) -> None:
    os.truncate(path, 0)


def _truncate_unseen(path: Path) -> None:
    seen = path.stat()
    os.truncate(path, 5)
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))


def _lock(path: Path) -> None:
    path.chmod(0)


class _Place:
    """A home and a cache that knows it."""

    def __init__(self, root: Path, name: str) -> None:
        self.tree = root / "home"
        for file, data in _TREES[name].items():
            (self.tree / file).parent.mkdir(parents=True, exist_ok=True)
            (self.tree / file).write_bytes(data)
        self._name, self._root = name, root
        self._home = Home(provider=name, path=str(self.tree), is_default=False, origin="test")
        self._colds = 0

    def listing(self, cache: Cache | None = None) -> list[str]:
        cache = cache or Cache(str(self._root / "cache"))
        known = cache.known(self._name, str(self.tree))
        found: list[SessionRecord | Skipped] = []
        for entry in find_provider(self._name).list_sessions(self._home, known):
            found += entry.load() if isinstance(entry, Resting) else [entry]
        cache.keep(known)
        cache.close()
        return sorted(map(repr, found))

    def cold(self) -> list[str]:
        self._colds += 1
        return self.listing(Cache(str(self._root / f"cold-{self._colds}")))

    def learn(self) -> list[str]:
        """List until nothing is too young to be known; then all is."""
        time.sleep(_SETTLES_S)
        self.listing()
        return self.listing()


@contextmanager
def _plain_user(root: Path) -> Iterator[None]:
    """Root may read everything: who is to be refused must be somebody else."""
    if os.geteuid() != 0:
        yield
        return
    for directory, _, files in os.walk(root):
        for name in (*files, "."):
            os.chown(os.path.join(directory, name), _NOBODY, _NOBODY)
    os.seteuid(_NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.parametrize("change", [_write_over, _write_over_unseen, _truncate, _truncate_unseen, _lock])
@pytest.mark.parametrize(("name", "file"), _FILES)
def test_what_is_written_in_place_is_seen(name: str, file: str, change: Callable[[Path], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder), name)
        path = place.tree / file
        directory = path.parent.stat().st_mtime_ns
        with _plain_user(Path(folder)):
            before = place.learn()
            assert place.cold() == before
            change(path)
            assert path.parent.stat().st_mtime_ns == directory, "the directory must not tell"
            changed = place.listing()
            assert changed != before
            assert changed == place.cold()
            assert place.learn() == changed
            path.chmod(0o600)
            path.write_bytes(_TREES[name][file])
            assert place.listing() == place.cold()


@pytest.mark.parametrize(("name", "file"), _FILES)
def test_what_can_be_read_again_is_read_again(name: str, file: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = _Place(Path(folder), name)
        path = place.tree / file
        with _plain_user(Path(folder)):
            before = place.learn()
            path.chmod(0)
            locked = place.learn()
            assert locked != before
            path.chmod(0o600)
            assert place.listing() == before
