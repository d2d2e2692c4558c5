"""The table for people: signs, folding, narrow terminals, hostile titles."""

from __future__ import annotations

import pytest
from msgspec import structs

from corral.cli.ps import render, short_ids
from corral.cli.screen import age, cells, fit
from corral.machine.text import one_line, safe
from corral.model.claim import ClaimKind
from corral.model.verdict import Liveness, State
from tests.unit.cli.sessions import NOW, each_state, session, survey
from tests.unit.sessions.decide.facts import judged


def lines(width=200, fold=False, colour=False, sessions=None):
    shown = each_state() if sessions is None else sessions
    return render(survey(shown), shown, fold_doubt=fold, width=width, colour=colour)


def test_every_state_has_its_sign_and_words():
    text = "\n".join(lines())
    for said in (
        "◆ waiting 40 s",
        "◐ busy 2 min",
        "● ready",
        "✖ lost",
        "? maybe open",
        "⇄ elsewhere",
        "○ idle 2 h",
        "· empty",
    ):
        assert said in text


def test_what_waits_and_what_was_lost_is_named():
    text = "\n".join(lines())
    assert "(waits for: run npm test)" in text
    assert 'Migrate (in a turn: "run the migration")' in text


def test_doubt_is_one_line_when_folded_with_the_command_that_ends_it():
    text = lines(fold=True)
    assert not any("maybe open" in line for line in text)
    assert (
        "? 1 kimi-cli session may be open in pid 99: corral can't see its session. corral hooks install kimi-cli"
        in text
    )


def test_one_that_will_never_be_confirmed_does_not_seem_to_be_starting():
    launch = {"kind": ClaimKind.LAUNCH, "written_at": NOW}
    asked = session("aaaaaaaa-1", [judged(Liveness.LIVE, 4711, **launch)])
    silent = session("bbbbbbbb-1", [judged(Liveness.LIVE, 4712, **launch, silence="they are not installed")])
    quiet = structs.replace(survey([asked, silent]), unattributed=())
    text = render(quiet, [asked, silent], fold_doubt=False, width=200, colour=False)
    assert [line.split()[1] for line in text[1:3]] == ["starting", "unconfirmed"]
    assert "◌ nothing confirms the session of pid 4712: its hooks do not report. corral hooks install kimi-cli" in text
    assert not any("hooks" in line for line in render(quiet, [asked], fold_doubt=False, width=200, colour=False))
    other = structs.replace(silent, key=structs.replace(silent.key, provider="kimi-code"))
    text = render(survey([silent, other]), [silent, other], fold_doubt=False, width=200, colour=False)
    assert sum("nothing confirms" in line for line in text) == 2
    assert any(line.endswith("corral hooks install kimi-code") for line in text)


def test_the_last_line_counts_everything():
    assert lines()[-1] == "3 live · 1 lost · 1 unknown · 1 elsewhere · 1 idle · 1 empty"


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
def test_the_table_fits_the_terminal_and_never_loses_the_state(width):
    shown = lines(width=width)
    table = [line for line in shown if line[:1] in "◆◐●✖?⇄○· "]
    assert all(cells(line) <= max(width, 30) for line in table[:-1])
    assert any("◆ waiting 40 s" in line for line in table)


def test_colour_is_added_around_the_state_only():
    plain, coloured = lines(), lines(colour=True)
    assert not any("\x1b" in line for line in plain)
    assert sum("\x1b[33m" in safe(line) for line in coloured) == 1


def test_ids_are_as_long_as_unique():
    assert short_ids(["abcdefgh-1111", "abcdefgh-2222", "zzzzzzzz-3"]) == {
        "abcdefgh-1111": "abcdefgh-1",
        "abcdefgh-2222": "abcdefgh-2",
        "zzzzzzzz-3": "zzzzzzzz",
    }
    spoken = short_ids(["session_5d3909df-ff7e-4096-9554-5247ee47fb44"])
    assert list(spoken.values()) == ["5d3909df"]


def test_wide_characters_take_their_room():
    assert cells("漢字") == 4
    assert fit("漢字漢字", 5) == "漢字…"
    shown = lines(width=60, sessions=[session("aaaaaaaa-1", title="漢字" * 40)])
    assert all(cells(line) <= 60 for line in shown[:2])


@pytest.mark.parametrize(
    "hostile", ["\x1b]0;owned\x07", "a\rb", "x\ny", "\u202egnp.exe", "\u200b\u200bz", "\x9b31m", "\udc80"]
)
def test_a_hostile_title_cannot_move_the_cursor(hostile):
    cleaned = one_line(f"before {hostile} after") or ""
    assert all(character.isprintable() for character in cleaned)
    assert "before" in cleaned and "after" in cleaned


@pytest.mark.parametrize(
    ("seconds", "said"), [(-5, "0 s"), (40, "40 s"), (125, "2 min"), (7200, "2 h"), (400_000, "4 d")]
)
def test_ages_are_rough_on_purpose(seconds, said):
    assert age(seconds) == said


def test_nothing_found_says_what_was_looked_for():
    empty = survey([])
    import msgspec

    bare = msgspec.structs.replace(empty, unattributed=())
    text = "\n".join(render(bare, [], fold_doubt=True, width=100, colour=False))
    assert "No agent sessions on this machine." in text
    assert "Kimi CLI" in text and "Qwen Code" in text and "corral doctor" in text
    # Nothing is advised that would be refused: there is no home to install hooks in.
    assert "hooks install" not in text
    assert "corral demo" in text


def test_states_are_all_said():
    assert {one.state for one in each_state()} == set(State) - {State.PENDING}
