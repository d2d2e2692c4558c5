"""A HOME with generated homes in it, and what corral says about it."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.usage_truth.codex import CodexHome
from tests.usage_truth.kimi_cli import KimiCliHome
from tests.usage_truth.kimi_code import KimiCodeHome
from tests.usage_truth.qwen_code import QwenHome
from tests.usage_truth.truth import RATES, Chance, Files, Truth


class World:
    """Everything below one directory; nothing of the machine is seen."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self.truth = Truth()
        self.env_more: dict[str, str] = {}
        chance = Chance(seed)
        kimi_cli = KimiCliHome(chance, self.truth, hooks=bool(seed % 2))
        homes = (
            kimi_cli,
            KimiCodeHome(chance, self.truth),
            QwenHome(chance, self.truth),
            CodexHome(chance, self.truth),
        )
        self.files: list[Files] = []
        for home in homes:
            home.write()
            self.files.append(home.files)
        self._write_config()
        write_journal(root, "kimi-cli", str(root / ".kimi"), kimi_cli.journal)

    def write(self) -> None:
        for files in self.files:
            files.write(self.root)

    def content(self) -> dict[str, bytes]:
        return {path: data for files in self.files for path, data in files.content().items()}

    @property
    def env(self) -> dict[str, str]:
        return {"HOME": str(self.root), "PATH": "/usr/bin:/bin", **self.env_more}

    def usage(self, *words: str) -> Any:
        command = [sys.executable, "-m", "corral", "usage", "--tz", "UTC", "--json", *words]
        done = subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def ledger_path(self) -> str:
        return os.path.join(self.root, ".local/state/corral/ledger.db")

    def _write_config(self) -> None:
        place = self.root / ".config/corral"
        place.mkdir(parents=True)
        names = ("input", "cache_read", "cache_write", "output")
        tables = [
            f'[prices."{model}"]\n' + "".join(f"{name} = {rate}\n" for name, rate in zip(names, rates, strict=True))
            for model, rates in RATES.items()
        ]
        (place / "config.toml").write_text("\n".join(tables))


def write_journal(root: Path, provider: str, home: str, events: list[dict[str, Any]], pid: int = 4711) -> None:
    if not events:
        return
    place = root / ".local/state/corral/journal" / provider
    place.mkdir(parents=True, exist_ok=True)
    journal = {
        "schema": 1,
        "provider": provider,
        "boot_id": "b0071d",
        "pid_ns": 1,
        "pid": pid,
        "start_ticks": 99,
        "hostname": "h",
        "home": home,
        "events": events,
    }
    (place / f"{pid}-99.json").write_text(json.dumps(journal))


def dump(ledger_path: str) -> list[tuple[object, ...]]:
    """All that a ledger counts, in an order of its own: nothing of when or how it was read."""
    db = sqlite3.connect(f"file:{ledger_path}?mode=ro", uri=True)
    try:
        who = "JOIN sessions ON sessions.id = session JOIN homes ON homes.id = sessions.home"
        rows: list[tuple[object, ...]] = []
        for table, columns in (
            (
                "events",
                "at, agent, model, model_source, input, cache_read, cache_write, cache_write_1h, output,"
                " reasoning, branch, ambiguous",
            ),
            ("actions", "at, kind, name"),
            ("unrecorded", "at, kind"),
        ):
            query = f"SELECT '{table}', provider, homes.path, scope, session_id, work_dir, key, {columns} FROM {table} {who}"
            rows += db.execute(query).fetchall()
        rows += db.execute("SELECT 'skips', path, skips.offset, reason FROM skips JOIN sources ON sources.id = source")
        return sorted(rows, key=repr)
    finally:
        db.close()
