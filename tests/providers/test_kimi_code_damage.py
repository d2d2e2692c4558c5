"""A damaged log of kimi-code: what its own reader would drop, named by the line."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from corral.model.restore import Loss, Refusal, Refused
from corral.model.selection import Selection
from corral.providers.kimi_code import restore
from corral.providers.kimi_code.sessions import WIRE
from corral.providers.kit.foreign_json import is_javascript_json
from corral.providers.kit.losses import find_loss
from corral.sessions.naming import find_session
from corral.sessions.survey import take_survey

FIXTURES = Path(__file__).parent / "fixtures" / "kimi-code"
PROMPT = b'{"type":"turn.prompt","input":"hello"}'
WHOLE = [b'{"type":"metadata"}', PROMPT, b'{"type":"turn.ended"}', PROMPT, b'{"type":"turn.ended"}']


@pytest.fixture
def loss_in(tmp_path: Path):
    def read(data: bytes) -> Loss | None:
        path = tmp_path / "agents" / "main" / "wire.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return find_loss(str(path), WIRE.is_record, WIRE.prompt)

    return read


def text(*lines: bytes) -> bytes:
    return b"".join(line + b"\n" for line in lines)


@pytest.mark.parametrize(
    "line", [b'{"type":"tu', b"   ", b"\0\0\0", b'{"a":NaN}', b"{}{}", b"x", b'{"a":"\t"}', b"\x80"]
)
def test_a_line_that_is_not_json_loses_what_follows(loss_in, line: bytes):
    loss = loss_in(text(*WHOLE[:3], line, *WHOLE[3:]))
    assert (loss.line, loss.lines, loss.prompts) == (4, 2, 1)


@pytest.mark.parametrize(
    "line", [b"", b"\r", b"5", b"[1]", b"null", b'{"a":"\xff"}', b'{"a":1}\r', b'{"a":"\\ud800"}', b"9" * 5000]
)
def test_a_line_that_kimi_code_passes_loses_nothing(loss_in, line: bytes):
    assert loss_in(text(*WHOLE[:3], line, *WHOLE[3:])) is None


def test_what_nothing_follows_is_no_loss(loss_in):
    assert loss_in(text(*WHOLE) + b'{"type":"tur') is None
    assert loss_in(text(*WHOLE, b'{"type":"tur')) is None
    assert loss_in(text(*WHOLE) + b"\0" * 64) is None
    assert loss_in(text(*WHOLE, b"x", b"", b"y")) is None
    assert loss_in(text(*WHOLE)[:-1]) is None
    assert loss_in(b"\xef\xbb\xbf" + text(*WHOLE)) is None
    assert loss_in(b"") is None


def test_empty_lines_count_as_an_editor_counts_them(loss_in):
    assert loss_in(text(WHOLE[0], b"", b"", b"x", *WHOLE[1:])).line == 4


def test_a_last_line_without_its_end_counts_if_it_is_whole(loss_in):
    assert loss_in(text(WHOLE[0], b"x") + PROMPT).prompts == 1


def test_a_deep_line_is_what_javascript_reads():
    assert is_javascript_json(b"[" * 5000 + b"]" * 5000)


@pytest.fixture
def torn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with one session whose log is torn in its second line; corral's own directories beside it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("CONFIG", "DATA", "STATE", "CACHE"):
        monkeypatch.setenv(f"CORRAL_{name}_DIR", str(tmp_path / name.lower()))
    program = tmp_path / "bin" / "kimi"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 2.1.0\n")
    program.chmod(0o755)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.toml").write_text(f'[programs]\nkimi-code = "{program}"\n')
    shutil.copytree(FIXTURES, tmp_path / ".kimi-code")
    return tmp_path


def tear_one(home: Path) -> tuple[str, Path]:
    """The id and log of a session that has been torn; its directory exists."""
    for state in (home / ".kimi-code" / "sessions").glob("*/*/state.json"):
        wire = state.parent / "agents" / "main" / "wire.jsonl"
        if not wire.exists() or wire.read_bytes().count(b"\n") < 5:
            continue
        lines = wire.read_bytes().split(b"\n")
        if not all(is_javascript_json(line) for line in lines if line):
            continue
        content = json.loads(state.read_text())
        content["cwd"] = str(home)
        state.write_text(json.dumps(content))
        lines[1] = lines[1][:12]
        wire.write_bytes(b"\n".join(lines))
        return state.parent.name, wire
    raise LookupError("no session in the fixtures will do")


def test_one_session_is_looked_at_closely_and_a_listing_is_not(torn: Path, monkeypatch: pytest.MonkeyPatch):
    session_id, wire = tear_one(torn)
    refused = find_session(session_id, anyway=True).restore
    assert isinstance(refused, Refused), refused
    assert refused.reason is Refusal.TRANSCRIPT_MISSING
    assert refused.loss is not None and (refused.loss.path, refused.loss.line) == (str(wire), 2)
    assert f"line 2 of {wire}" in refused.message
    read: list[str] = []
    monkeypatch.setattr(restore, "find_loss", lambda path, *_: read.append(path))
    take_survey(Selection())
    take_survey(Selection(id_prefix=""))
    assert read == []


def test_a_torn_line_near_the_end_is_noted_in_a_listing(torn: Path):
    session_id, wire = tear_one(torn)
    lines = wire.read_bytes().split(b"\n")
    wire.write_bytes(b"\n".join([*lines[:-2], b'{"type":"us', *lines[-2:]]))
    os.utime(wire.parent.parent.parent)
    (found,) = [one for one in take_survey(Selection()).sessions if one.session_id == session_id]
    assert found.record is not None and any("not JSON" in note for note in found.record.notes)
