"""The strict parser of runtime.json: what it accepts, what it refuses and by which name."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.sidecar.record import MAX_BYTES, Refusal, RuntimeRecord, encode, is_valid_cli, is_valid_id, parse

V1 = {
    "schema_version": 1,
    "pid": 16909,
    "session_id": "1e105a58-0825-48c1-a120-d797664e3381",
    "work_dir": "/home/dev/projects/app",
    "hostname": "devhost",
    "started_at": 1794770567.585,
    "qwen_version": "0.24.4",
}
OURS = V1 | {"provider": "kimi-cli", "boot_id": "e1bd7f31-862b", "start_ticks": 53842, "pid_ns": 4026531836}


QUIET = settings(deadline=None, database=None)


def dump(fields: object) -> bytes:
    return json.dumps(fields).encode()


def code(data: bytes) -> str:
    result = parse(data)
    assert isinstance(result, Refusal), result
    assert result.reason.endswith(".") and "\n" not in result.reason
    return result.code


def test_a_v1_record_of_another_writer_is_read():
    assert parse(dump(V1)) == RuntimeRecord(
        pid=16909,
        session_id="1e105a58-0825-48c1-a120-d797664e3381",
        work_dir="/home/dev/projects/app",
        hostname="devhost",
        started_at=1794770567.585,
        cli="qwen",
        version="0.24.4",
    )


def test_our_additions_give_the_identity():
    record = parse(dump(OURS))
    assert isinstance(record, RuntimeRecord)
    assert record.identity == ("e1bd7f31-862b", 4026531836, 16909, 53842)
    plain = parse(dump(V1))
    assert isinstance(plain, RuntimeRecord) and plain.identity is None


@pytest.mark.parametrize(
    "extra",
    [
        {"later": {"deep": [1, 2, {"x": None}]}},
        {"": ""},
        {"kimi_version": None},
        {"a_version": 7, "b_version": "2"},
        {"PID": "not ours"},
        {"huge": 10**300},
        {"started_at": 7},
        {"started_at": -1.5},
        {"pid": 1},
        {"pid": 4194304},
        {"work_dir": "/tmp/Übung 🐑"},
    ],
)
def test_unknown_fields_and_odd_but_right_values_are_accepted(extra: dict[str, object]):
    assert isinstance(parse(dump(V1 | extra)), RuntimeRecord)


INVALID = [
    ("pid", [True, False, None, 0, -1, 4194305, 2**31, 2**64, 12.0, 1e3, "12", [12], {}, "", 10**4000]),
    ("session_id", ["", ".", "..", "-x", "a/b", "a\\b", "a b", "a\n", "ä", "x" * 129, 7, None, ["a"], "a\0"]),
    ("work_dir", ["", None, 5, "a\0b", "x" * 32768, "\ud800", [], True]),
    ("hostname", ["", None, 5, "a\0b", "x" * 256, "\udfff"]),
    ("started_at", [True, None, "1794770567", [], {}, 10**400]),
    ("provider", ["", "..", "a/b", 5, None, "x" * 129]),
    ("boot_id", ["", "a b", 5, None, "x" * 65]),
    ("start_ticks", [-1, 2**64, True, 1.0, "1", None]),
    ("pid_ns", [-1, 2**64, False, 1.0, "1", None]),
]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in INVALID for value in values])
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field: str, value: object):
    assert code(dump(OURS | {field: value})) == f"invalid:{field}"


@pytest.mark.parametrize("field", ["schema_version", "pid", "session_id", "work_dir", "hostname", "started_at"])
def test_a_missing_field_is_named(field: str):
    assert code(dump({name: value for name, value in V1.items() if name != field})) == f"invalid:{field}"


@pytest.mark.parametrize("version", [2, 0, -1, 1.0, "1", True, None, [1], 10**100])
def test_another_schema_version_is_unsupported(version: object):
    assert code(dump(V1 | {"schema_version": version})) == "unsupported"


def test_the_started_at_must_be_finite():
    text = dump(V1).decode()
    assert code(text.replace("1794770567.585", "1e999").encode()) == "invalid:started_at"
    for constant in ("NaN", "Infinity", "-Infinity"):
        assert code(text.replace("1794770567.585", constant).encode()) == "malformed"
        assert code(dump(V1 | {"x": float(constant.lower().replace("infinity", "inf"))})) == "malformed"


MALFORMED = {
    "empty": b"",
    "blank": b"  \n",
    "NULs": b"\0" * 300,
    "BOM": b"\xef\xbb\xbf" + dump(V1),
    "UTF-16": dump(V1).decode().encode("utf-16"),
    "UTF-16 without BOM": dump(V1).decode().encode("utf-16-le"),
    "UTF-32": dump(V1).decode().encode("utf-32"),
    "Latin-1": dump(V1).replace(b"devhost", b"d\xe9vhost"),
    "surrogate in UTF-8": dump(V1).replace(b"devhost", b"\xed\xa0\x80"),
    "trailing garbage": dump(V1) + b"x",
    "two documents": dump(V1) * 2,
    "array": b"[1]",
    "string": b'"x"',
    "null": b"null",
    "number": b"1",
    "duplicate key": dump(V1)[:-1] + b', "pid": 1}',
    "duplicate key below": dump(V1)[:-1] + b', "x": {"a": 1, "a": 1}}',
    "deep array": b"[" * 30000,
    "deep object": b'{"a":' * 10000 + b"1" + b"}" * 10000,
    "long integer": dump(V1).replace(b"16909", b"9" * 4301),
    "control character": dump(V1).replace(b"devhost", b"dev\nhost"),
    "comment": b"// x\n" + dump(V1),
    "single quotes": str(V1).encode(),
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_what_is_no_plain_json_object_is_malformed(data: bytes):
    assert code(data) == "malformed"


def test_a_record_longer_than_the_limit_is_too_large():
    assert code(b" " * (MAX_BYTES + 1)) == "too-large"
    padded = dump(V1) + b" " * (MAX_BYTES - len(dump(V1)))
    assert isinstance(parse(padded), RuntimeRecord)


def test_kimi_clis_background_task_file_of_the_same_name_is_refused():
    task = {
        "status": "killed",
        "worker_pid": 8049,
        "child_pid": 8064,
        "started_at": 1794772209.05,
        "exit_code": -15,
    }
    assert code(dump(task)) == "invalid:schema_version"


@pytest.mark.parametrize("number", range(1, len(dump(OURS))))
def test_a_record_cut_at_any_byte_is_malformed(number: int):
    assert code(dump(OURS)[:number]) == "malformed"


@given(st.binary(max_size=400))
@settings(QUIET)
def test_random_bytes_are_never_raised_about(data: bytes):
    assert isinstance(parse(data), Refusal | RuntimeRecord)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(sorted(OURS)), JSON)
@settings(QUIET, max_examples=400)
def test_any_value_in_any_field_is_accepted_exactly_or_refused(field: str, value: object):
    result = parse(dump(OURS | {field: value}))
    if isinstance(result, RuntimeRecord) and field not in ("schema_version", "qwen_version"):
        kept = getattr(result, field)
        assert kept == value and (type(kept) is type(value) or field == "started_at")
        assert type(value) is not bool
    if isinstance(result, RuntimeRecord):
        assert math.isfinite(result.started_at) and 1 <= result.pid <= 4194304 and is_valid_id(result.session_id)


@given(st.data())
@settings(QUIET, max_examples=600)
def test_a_mutated_record_is_never_raised_about_and_stays_sound(data: st.DataObject):
    raw = bytearray(dump(OURS))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(raw) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert"])):
            case "set":
                raw[place] = data.draw(st.integers(0, 255))
            case "cut":
                del raw[place : place + data.draw(st.integers(1, 9))]
            case _:
                raw[place:place] = data.draw(st.binary(max_size=6))
        if not raw:
            raw = bytearray(b"{")
    result = parse(bytes(raw))
    if isinstance(result, RuntimeRecord):
        assert 1 <= result.pid <= 4194304 and is_valid_id(result.session_id) and "\0" not in result.work_dir


TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=60)
IDS = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}", fullmatch=True)


@given(
    st.builds(
        RuntimeRecord,
        pid=st.integers(1, 4194304),
        session_id=IDS,
        work_dir=TEXT,
        hostname=TEXT,
        started_at=st.floats(allow_nan=False, allow_infinity=False),
        cli=st.just("kimi_cli"),
        version=TEXT,
        provider=st.none() | IDS,
        boot_id=st.none() | st.uuids().map(str),
        start_ticks=st.none() | st.integers(0, 2**64 - 1),
        pid_ns=st.none() | st.integers(0, 2**64 - 1),
        dir_device=st.none() | st.integers(0, 2**64 - 1),
        dir_inode=st.none() | st.integers(0, 2**64 - 1),
        reported_by=st.none() | IDS,
    )
)
@settings(QUIET)
def test_what_we_encode_is_what_we_parse(record: RuntimeRecord):
    assert parse(encode(record)) == record


@pytest.mark.parametrize("name", ["schema", "", "Kimi", "9x", "a b", "ü", "x" * 65, "a\n"])
def test_a_cli_name_that_can_not_stand_in_a_field_is_refused(name: str):
    assert not is_valid_cli(name)
