"""Bindings are durable, private, and one that is damaged harms no other."""

from __future__ import annotations

import os

import pytest
from msgspec import structs

from corral.model.key import SessionKey
from corral.state.bindings import Binding, Bindings

TAB = "0123456789abcdef"
BINDING = Binding(
    tab=TAB,
    provider="kimi-cli",
    home="/home/dev/.kimi",
    work_dir="/home/dev/app",
    opened_at=1.0,
    wanted=SessionKey("kimi-cli", "/home/dev/.kimi", "b", "s"),
    child=("boot", 1, 2, 3),
)


@pytest.fixture
def bindings(tmp_path) -> Bindings:
    return Bindings(str(tmp_path))


def test_a_binding_is_read_as_it_was_written(bindings, tmp_path):
    bindings.write(BINDING)
    later = structs.replace(BINDING, tab="f" * 16, opened_at=2.0)
    bindings.write(later)
    assert bindings.find(TAB) == BINDING
    assert bindings.read_all() == ([BINDING, later], [])
    assert os.stat(tmp_path / "bindings").st_mode & 0o777 == 0o700
    assert os.stat(tmp_path / "bindings" / f"{TAB}.json").st_mode & 0o777 == 0o600


def test_without_any_there_are_none(bindings):
    assert bindings.read_all() == ([], [])
    assert bindings.find(TAB) is None
    bindings.forget(TAB)


def test_a_forgotten_one_is_gone(bindings):
    bindings.write(BINDING)
    bindings.forget(TAB)
    assert bindings.read_all() == ([], [])


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b"\xff", b'{"schema": 1}', b"[" * 5000, b"x" * 70_000], ids=lambda data: repr(data[:9])
)
def test_a_damaged_one_is_told_and_the_others_are_read(bindings, tmp_path, data):
    bindings.write(BINDING)
    (tmp_path / "bindings" / f"{'1' * 16}.json").write_bytes(data)
    found, skipped = bindings.read_all()
    assert found == [BINDING]
    assert [one.path for one in skipped] == [str(tmp_path / "bindings" / f"{'1' * 16}.json")]
    assert skipped[0].reason


def test_one_that_was_renamed_or_is_newer_is_not_believed(bindings, tmp_path):
    bindings.write(BINDING)
    data = (tmp_path / "bindings" / f"{TAB}.json").read_bytes()
    (tmp_path / "bindings" / f"{'2' * 16}.json").write_bytes(data)
    (tmp_path / "bindings" / f"{TAB}.json").write_bytes(data.replace(b'"schema":1', b'"schema":2'))
    found, skipped = bindings.read_all()
    assert (found, len(skipped)) == ([], 2)


@pytest.mark.parametrize("tab", ["../launches/x", "", "0" * 15, "0" * 17, "ABCDEF0123456789"])
def test_a_tab_is_a_key_and_no_path(bindings, tab):
    assert bindings.find(tab) is None
    bindings.forget(tab)


def test_what_can_not_be_made_durable_raises(bindings, tmp_path):
    (tmp_path / "bindings").write_text("in the way")
    with pytest.raises(OSError, match=r"exists|directory"):
        bindings.write(BINDING)


def test_a_directory_is_known_by_what_it_is_and_not_by_its_name(bindings, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert not bindings.has_opened(str(tmp_path / "real"))
    bindings.note_opened(str(tmp_path / "link"))
    assert bindings.has_opened(str(tmp_path / "real"))
    (tmp_path / "link").unlink()
    (tmp_path / "link").mkdir()
    assert not bindings.has_opened(str(tmp_path / "link"))
