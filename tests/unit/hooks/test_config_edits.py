"""Edits of configurations: exactly our entries are added, and nothing of anybody else's is lost."""

from __future__ import annotations

import json
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.hooks.command import hook_command, is_our_command
from corral.hooks.edit import EditRefused, Entry, decode_config, json_config, toml_config
from corral.hooks.edit.jsonc import parse
from tests.unit.hooks.configs import JSON, JSON_REFUSED, TOML, TOML_REFUSED

COMMAND = hook_command("kimi-cli", "/data dir/it's", '/state "dir"')
ENTRIES = [Entry("SessionStart", COMMAND), Entry("SessionEnd", COMMAND)]


def plain(text):
    return parse(text).plain()


def test_there_are_enough_of_them():
    assert len(TOML) + len(JSON) >= 60


@pytest.mark.parametrize("name", TOML)
def test_a_toml_gains_our_entries_and_no_more(name):
    before = tomllib.loads(TOML[name])
    after = toml_config.add_entries(TOML[name], ENTRIES)
    ours = [{"event": entry.event, "command": COMMAND, "timeout": 5} for entry in ENTRIES]
    assert tomllib.loads(after) == {**before, "hooks": [*before.get("hooks", []), *ours]}
    assert toml_config.find_entries(after) == ENTRIES
    assert [line for line in _comments(TOML[name]) if line not in after] == []


@pytest.mark.parametrize("name", TOML)
def test_a_toml_loses_our_entries_and_no_more(name):
    after = toml_config.add_entries(TOML[name], ENTRIES)
    edited = after + ("" if after.endswith("\n") else "\n") + "[somebody]\nelse = 1\n"
    cleaned = toml_config.remove_entries(edited, toml_config.list_missing(TOML[name], ENTRIES))
    left = tomllib.loads(cleaned)
    assert left.pop("somebody") == {"else": 1}
    assert {"hooks": [], **left} == {"hooks": [], **tomllib.loads(TOML[name])}
    assert toml_config.find_entries(cleaned) == []
    assert [line for line in _comments(TOML[name]) if line not in cleaned] == []


@pytest.mark.parametrize("name", JSON)
def test_a_json_gains_our_entries_and_no_more(name):
    before = plain(JSON[name])
    after = json_config.add_entries(JSON[name], ENTRIES)
    hooks = before.setdefault("hooks", {})
    for entry in ENTRIES:
        hooks.setdefault(entry.event, []).append({"hooks": [{"type": "command", "command": COMMAND}]})
    assert plain(after) == before
    assert sorted(json_config.find_entries(after)) == sorted(ENTRIES)
    assert _is_subsequence(JSON[name], after)


@pytest.mark.parametrize("name", JSON)
def test_a_json_loses_our_entries_and_no_more(name):
    after = json_config.add_entries(JSON[name], ENTRIES)
    cleaned = json_config.remove_entries(after, json_config.list_missing(JSON[name], ENTRIES))
    assert plain(cleaned) == plain(JSON[name])
    assert _without_blanks(cleaned).replace(",", "") == _without_blanks(JSON[name]).replace(",", "")


@pytest.mark.parametrize("name", TOML_REFUSED)
def test_a_toml_that_its_cli_would_not_read_is_refused(name):
    with pytest.raises(EditRefused):
        toml_config.add_entries(decode_config(TOML_REFUSED[name]), ENTRIES)


@pytest.mark.parametrize("name", JSON_REFUSED)
def test_a_json_that_its_cli_would_not_read_is_refused(name):
    with pytest.raises(EditRefused):
        json_config.add_entries(decode_config(JSON_REFUSED[name]), ENTRIES)


def test_a_refusal_names_the_line():
    with pytest.raises(EditRefused, match="line 3"):
        toml_config.add_entries("a = 1\nb = 2\nc =\n", ENTRIES)
    with pytest.raises(EditRefused, match="line 3"):
        json_config.add_entries('{\n  "a": 1,\n  b: 2\n}', ENTRIES)


KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\x7f", exclude_categories=["Cc", "Cs"]), max_size=8)
SCALARS = st.one_of(st.booleans(), st.integers(-(2**40), 2**40), KEYS, st.floats(allow_nan=False, allow_infinity=False))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)
HOOK = st.fixed_dictionaries({"event": st.just("Stop"), "command": KEYS}, optional={"timeout": st.integers(1, 600)})


@given(
    st.dictionaries(KEYS.filter(lambda key: key != "hooks"), VALUES, max_size=5),
    st.none() | st.lists(HOOK, max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.randoms(),
)
def test_any_toml_gains_and_loses_exactly_our_entries(document, hooks, newline, random):
    import tomlkit

    if hooks is not None:
        document = {**document, "hooks": hooks}
    lines = tomlkit.dumps(document).split("\n")
    text = newline.join(line + (f"  # note {random.random()}" if line.startswith("[") else "") for line in lines)
    if tomllib.loads(text) != json.loads(json.dumps(document)):
        return  # what tomlkit writes is not under test here
    after = toml_config.add_entries(text, ENTRIES)
    assert tomllib.loads(after)["hooks"][: len(hooks or [])] == (hooks or [])
    assert {k: v for k, v in tomllib.loads(after).items() if k != "hooks"} == {
        k: v for k, v in document.items() if k != "hooks"
    }
    cleaned = toml_config.remove_entries(after, toml_config.list_missing(text, ENTRIES))
    assert {"hooks": [], **tomllib.loads(cleaned)} == {"hooks": [], **tomllib.loads(text)}


GROUP = st.fixed_dictionaries(
    {"hooks": st.lists(st.fixed_dictionaries({"type": st.just("command"), "command": KEYS}), max_size=2)}
)
EVENTS = st.dictionaries(
    st.sampled_from(["SessionStart", "SessionEnd", "Stop"]), st.lists(GROUP, max_size=2), max_size=3
)
PADS = st.sampled_from(["", " ", "\n", "\r\n", "\t", " // note\n", "/* note */", "\n\n  "])


@st.composite
def jsonc_texts(draw):
    """A JSON text with comments, blanks and trailing commas in every place that takes them."""
    document = draw(st.dictionaries(KEYS.filter(lambda key: key != "hooks"), VALUES, max_size=4))
    if (hooks := draw(st.none() | EVENTS)) is not None:
        document["hooks"] = hooks

    def write(value) -> str:
        pad = draw(PADS)
        if isinstance(value, dict):
            parts = [
                f"{draw(PADS)}{json.dumps(key)}{pad}:{draw(PADS)}{write(one)}{draw(PADS)}" for key, one in value.items()
            ]
            return "{" + pad + ",".join(parts) + (draw(st.sampled_from(["", ","])) if parts else "") + draw(PADS) + "}"
        if isinstance(value, list):
            parts = [f"{draw(PADS)}{write(one)}{draw(PADS)}" for one in value]
            return "[" + pad + ",".join(parts) + (draw(st.sampled_from(["", ","])) if parts else "") + draw(PADS) + "]"
        return json.dumps(value)

    return document, draw(PADS) + write(document) + draw(PADS)


@given(jsonc_texts())
def test_any_json_gains_and_loses_exactly_our_entries(case):
    document, text = case
    assert plain(text) == document
    after = json_config.add_entries(text, ENTRIES)
    assert _is_subsequence(text, after)
    cleaned = json_config.remove_entries(after, json_config.list_missing(text, ENTRIES))
    assert plain(cleaned) == document
    assert cleaned.count("note") == text.count("note")


@pytest.mark.parametrize(
    "command",
    [COMMAND, "/old/python -I -S /elsewhere/corral-hook.py kimi-cli /s", "sh -c 'x' corral-hook.py"],
)
def test_our_commands_are_known_by_the_program(command):
    assert is_our_command(command)


@pytest.mark.parametrize(
    "command", ["", "beep", "echo corral-hook.pyz", "not-corral-hook.py", "cat 'corral-hook.py", 3, None]
)
def test_other_commands_are_not_ours(command):
    assert not is_our_command(command)


def _comments(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


def _is_subsequence(text, longer):
    rest = iter(longer)
    return all(character in rest for character in text)


def _without_blanks(text):
    return "".join(text.split())
