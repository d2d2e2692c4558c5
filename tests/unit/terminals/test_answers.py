"""Answers and queries of terminals are told apart from keys and pictures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from corral.terminals.queries import QueryFilter, strip_answers

ANSWERS = [
    b"\x1b[?62;22c",
    b"\x1b[>0;276;0c",
    b"\x1b[0n",
    b"\x1b[12;40R",
    b"\x1b[?12;40R",
    b"\x1b[?2004;1$y",
    b"\x1b[?1u",
    b"\x1b[8;24;80t",
    b"\x1b]11;rgb:0000/0000/0000\x1b\\",
    b"\x1b]11;rgb:0000/0000/0000\x07",
    b"\x1bP>|xterm(370)\x1b\\",
    b"\x1bP1+r544e=78\x1b\\",
    b"\x1b[I",
    b"\x1b[O",
]
KEYS = [
    b"a",
    b"\x03",
    b"\x1b",
    b"\x1b[A",
    b"\x1bOP",
    b"\x1b[3~",
    b"\x1b[97;5u",
    b"\x1b[<0;10;5M",
    b"\x1b[1;5C",
    b"\x1bP",
    b"\x1b]",
    "ж".encode(),
]
QUERIES = [
    b"\x1b[c",
    b"\x1b[0c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[?2026$p",
    b"\x1b[4$p",
    b"\x1b[>q",
    b"\x1b[>0q",
    b"\x1b[?u",
    b"\x1b[18t",
    b"\x1b[14t",
    b"\x1b[21t",
    b"\x1b]10;?\x07",
    b"\x1b]11;?\x1b\\",
    b"\x1b]4;1;?\x07",
    b"\x1b]52;c;?\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\",
    b"\x1bZ",
    b"\x05",
]
SHOWN = [
    b"text ? ; c",
    b"\x1b[1;31m",
    b"\x1b[2J",
    b"\x1b[?25h",
    b"\x1b[>1u",
    b"\x1b[>4;1m",
    b"\x1b[22;0t",
    b"\x1b]0;what?!\x07",
    b"\x1b]8;;http://a/?\x1b\\",
    b"\x1b[4 q",
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_an_answer_is_dropped_and_keys_around_it_stay(answer):
    assert strip_answers(answer) == b""
    assert strip_answers(b"ab" + answer + b"cd\x1b[A") == b"abcd\x1b[A"


@pytest.mark.parametrize("key", KEYS)
def test_a_key_stays(key):
    assert strip_answers(key) == key


@given(st.lists(st.sampled_from([*ANSWERS, *KEYS[3:9]])))
def test_only_keys_are_left(parts):
    assert strip_answers(b"".join(parts)) == b"".join(part for part in parts if part in KEYS)


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_is_not_shown_again_however_it_is_cut(query):
    for cut in range(len(query) + 1):
        queries = QueryFilter()
        shown = queries.feed(b"before" + query[:cut]) + queries.feed(query[cut:] + b"after")
        assert shown + queries.flush() == b"beforeafter"


@pytest.mark.parametrize("shown", SHOWN)
def test_what_is_no_query_is_shown_as_it_was(shown):
    for cut in range(len(shown) + 1):
        queries = QueryFilter()
        assert queries.feed(shown[:cut]) + queries.feed(shown[cut:]) + queries.flush() == shown


def test_a_string_without_end_is_not_kept_for_ever():
    queries = QueryFilter()
    assert len(queries.feed(b"\x1b]0;" + b"x" * 100_000)) > 90_000
