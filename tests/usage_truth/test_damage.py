"""However a ledger is damaged: what logs tell is right, and what only the ledger knew is saved or said to be lost."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.usage_truth.damage import (
    PAGE,
    TABLES,
    Damage,
    Patient,
    change_value,
    cut,
    damage_page,
    delete_rows,
    drop,
    dump_all,
    forget_logs,
    list_columns,
    replace_table,
)

_INDICES = ("events_by_session", "events_of_shared_files", "turns_by_session", "quarters_by_session")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Patient]:
    """In memory where that can be: each damage is a file that is written, read, and written again."""
    before = dict(os.environ)
    shared = Path("/dev/shm")
    place = Path(tempfile.mkdtemp(dir=shared)) if os.access(shared, os.W_OK) else tmp_path_factory.mktemp("damage")
    try:
        yield Patient(place, 7)
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(place)


def _list_damages(patient: Patient, kind: str) -> list[Damage]:
    pages = len(patient.whole) // PAGE
    return {
        "values": [change_value(*column) for column in list_columns(patient.path)],
        "rows": [delete_rows(table) for table in TABLES],
        "definitions": [
            *(drop("TABLE", table) for table in TABLES),
            *(drop("INDEX", name) for name in _INDICES),
            *(replace_table(table) for table in TABLES),
        ],
        "pages": [damage_page(number) for number in range(pages)],
        "length": [cut(share) for share in (0.0, 0.01, 0.2, 0.5, 0.9, 0.999)],
    }[kind]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["values", "rows", "definitions", "pages", "length"])
def test_with_logs_every_answer_is_right(patient: Patient, kind: str, seed: int) -> None:
    patient.reset()
    damages = _list_damages(patient, kind)
    chance = random.Random(seed)
    for damage in damages if len(damages) <= 30 else chance.sample(damages, 30):
        patient.reset()
        done = damage(patient.path, chance)
        if done is None:
            continue
        found = patient.answers()
        for name, answer in patient.truth.items():
            assert found[name] == answer, (done, name)
        # All of it is in the logs. Where the old file does not tell how much it knew, that alone is said.
        said = [loss.events for loss in patient.report().losses]
        assert not any(said) and (kind in ("pages", "length", "definitions") or not said), (done, said)
        if list(patient.state.glob("ledger.db.broken-*")):
            rebuilt = dump_all(patient.path)
            for name in patient.tables.keys() - {"losses", "seals"}:
                assert rebuilt[name] == patient.tables[name], (done, name)


@pytest.mark.parametrize("copy", [False, True])
@pytest.mark.parametrize("kind", ["values", "rows", "definitions", "pages", "length"])
def test_without_logs_what_is_not_saved_is_said(patient: Patient, kind: str, copy: bool, tmp_path: Path) -> None:
    patient.reset()
    damages = _list_damages(patient, kind)
    chance = random.Random(3)
    truth = patient.report()
    logs = tmp_path / "logs"
    shutil.copytree(patient.world.root, logs, symlinks=True, ignore=shutil.ignore_patterns("ledger.db*"))
    try:
        for damage in damages if len(damages) <= 12 else chance.sample(damages, 12):
            patient.reset(copy=copy)
            done = damage(patient.path, chance)
            if done is None:
                continue
            forget_logs(patient.world)
            report = patient.report()
            expected = {row.key["session"]: row for row in truth.rows}
            for row in report.rows:
                right = expected[row.key["session"]]
                assert row.events <= right.events, done
                assert row.tokens.total <= right.tokens.total, done
                assert row.events < right.events or row.tokens == right.tokens, done
            missing = truth.total.events - report.total.events
            said = [loss for loss in report.losses if loss.what.startswith("requests")]
            if missing:
                assert said and all(loss.events in (missing, None) for loss in said), (done, missing)
                assert all(loss.until is not None for loss in said), done
                assert any("missing" in note for note in report.notes), done
            assert all(loss.events in (missing, None) for loss in said), (done, missing, said)
            if copy:
                assert not missing, done
            assert patient.report().losses == report.losses, done  # until it is acknowledged
            for name in (".kimi", ".kimi-code", ".qwen"):
                if (logs / name).exists() and not (patient.world.root / name).exists():
                    shutil.copytree(logs / name, patient.world.root / name, symlinks=True)
    finally:
        for name in (".kimi", ".kimi-code", ".qwen"):
            if (logs / name).exists() and not (patient.world.root / name).exists():
                shutil.copytree(logs / name, patient.world.root / name, symlinks=True)
