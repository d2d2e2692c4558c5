"""Our small stand-ins for typing and json behave as the real ones."""

from __future__ import annotations

import copy
import json
import pickle
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.sidecar.light import NamedTuple, dumps, loads

LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)


class Point(NamedTuple):
    """A place."""

    x: int
    y: int = 2
    name: str | None = None

    @property
    def total(self) -> int:
        return self.x + self.y


def test_a_record_is_a_tuple_with_names_defaults_and_methods():
    point = Point(1, name="a")
    assert point == (1, 2, "a") == tuple(point)
    assert (point.x, point.y, point.name, point.total) == (1, 2, "a", 3)
    assert (Point._fields, Point._field_defaults) == (("x", "y", "name"), {"y": 2, "name": None})
    assert (Point.__doc__, Point.__module__, repr(point)) == ("A place.", __name__, "Point(x=1, y=2, name='a')")
    assert point._asdict() == {"x": 1, "y": 2, "name": "a"}
    assert point._replace(x=5) == Point(5, 2, "a") == Point._make([5, 2, "a"])
    assert pickle.loads(pickle.dumps(point)) == copy.deepcopy(point) == point
    assert hash(point) == hash((1, 2, "a"))
    match point:
        case Point(1, y):
            assert y == 2
        case _:
            pytest.fail("it matches by position")


@pytest.mark.parametrize("values, named", [((), {}), ((1, 2, "a", 4), {}), ((1,), {"x": 2}), ((1,), {"z": 2})])
def test_a_record_refuses_wrong_fields(values, named):
    with pytest.raises(TypeError):
        Point(*values, **named)


def test_a_record_can_not_be_changed():
    with pytest.raises(AttributeError):
        Point(1).x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        Point(1).other = 2  # type: ignore[attr-defined]


@given(VALUES)
def test_json_is_written_as_by_json(value):
    assert dumps(value) == json.dumps(value, separators=(",", ":"))
    assert dumps(value, ascii_only=False) == json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    assert loads(dumps(value)) == value


@given(st.text() | VALUES.map(lambda value: json.dumps(value, indent=1)))
def test_json_is_read_as_by_json(text):
    assert outcome(loads, text) == outcome(json.loads, text)


@pytest.mark.parametrize(
    "text",
    ["", " ", "{", "[1", "[1,]", '{"a"}', '{"a":1} x', ' \n{"a": [1.5, -2, "\\u00e9"]}\t', "\ufeff{}", '"\n"', "NaN",
     "-Infinity", "[" * 100_000, "1" * 5000, '{"a":1,"a":2}', "\u00a0{}"],
    ids=range(16),
)  # fmt: skip
def test_odd_json_is_read_as_by_json(text):
    assert outcome(loads, text) == outcome(json.loads, text)


def outcome(read, text):
    """The value, or the kind of error with its message."""
    try:
        return repr(read(text))
    except (ValueError, RecursionError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("text", ["{", "[1", "", "{'a': 1}", '{"a": 1} x'])
def test_broken_json_is_an_error_also_where_json_was_never_imported(text):
    code = (
        "import sys; from corral.sidecar.light import loads; assert 'json' not in sys.modules\n"
        "try: loads(sys.argv[1])\nexcept ValueError as error: print(type(error).__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {sys.path[0]!r}); sys.path += {sys.path!r}\n{code}", text],
        capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("JSONDecodeError\n", "")
