"""The published JSON Schema and the strict reader say the same."""

import json
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral import sidecar
from corral.sidecar.record import RuntimeRecord, parse

SCHEMA = json.loads(files("corral.sidecar").joinpath("runtime.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

QUIET = settings(deadline=None, database=None)

BASE = {
    "schema_version": 1,
    "pid": 7,
    "session_id": "abc",
    "work_dir": "/w",
    "hostname": "h",
    "started_at": 1.5,
    "kimi_version": "1",
    "provider": "kimi-cli",
    "boot_id": "b-1",
    "start_ticks": 5,
    "pid_ns": 6,
}
VALUES = [
    *[None, True, False, 0, 1, -1, 2, 5.5, 4194304, 4194305, 2**64 - 1, 2**64, 10**400],
    *["", ".", "..", "...", "-a", "a.b", "a/b", "a\n", "a\0", "\ud800", "é", "1"],
    *["x" * length for length in (64, 65, 128, 129, 255, 256, 32767, 32768)],
    *[[], {}, [1], {"a": 1}],
]


def agree(fields: dict[str, object]) -> None:
    accepted = isinstance(parse(json.dumps(fields).encode()), RuntimeRecord)
    assert VALIDATOR.is_valid(fields) == accepted, fields


def test_the_schema_is_a_schema():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def test_what_we_write_passes_the_schema(tmp_path: Path):
    sidecar.write(tmp_path, session_id="s1", work_dir="/w", cli="kimi-cli", version="1.51.0", provider="kimi-cli")
    VALIDATOR.validate(json.loads((tmp_path / "runtime.json").read_text("utf-8")))


@pytest.mark.parametrize("field", [*BASE, "unknown"])
@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:12])
def test_reader_and_schema_agree_on_every_field(field: str, value: object):
    agree(BASE | {field: value})


@pytest.mark.parametrize("field", BASE)
def test_reader_and_schema_agree_on_what_is_required(field: str):
    agree({name: value for name, value in BASE.items() if name != field})


@given(st.sampled_from(sorted(BASE)), st.text(max_size=12) | st.integers() | st.booleans() | st.none())
@settings(QUIET, max_examples=300)
def test_reader_and_schema_agree_on_anything_drawn(field: str, value: object):
    agree(BASE | {field: value})
