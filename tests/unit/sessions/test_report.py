"""What every view says of a session is in its report, in the same words."""

from __future__ import annotations

import pytest

from corral.model.restore import Command, Refusal, Refused
from corral.model.session_report import report_plan
from corral.model.verdict import Liveness
from corral.sessions import report_session
from tests.unit.cli.sessions import session
from tests.unit.sessions.decide.facts import judged


@pytest.mark.parametrize(
    ("claim", "words"),
    [
        (judged(Liveness.REMOTE, elsewhere=True, hostname="build-host"), "claimed by build-host"),
        (judged(Liveness.REMOTE, elsewhere=True), "elsewhere"),
        (judged(Liveness.UNKNOWN, elsewhere=True, hostname="this-host"), "elsewhere"),
    ],
    ids=["another host", "a host without a name", "a container with this host's name"],
)
def test_who_claims_a_session_elsewhere_is_said_once_for_every_view(claim, words):
    away = session("s1", [claim])
    report = report_session(away)
    assert (report.word, report.elsewhere) == (words, words)
    assert report.evidence[0].hostname == claim.claim.hostname


def test_only_a_session_that_is_elsewhere_is_claimed_there():
    stale = judged(Liveness.STALE, hostname="build-host")
    assert report_session(session("s1", [stale])).elsewhere is None


def test_what_can_be_typed_is_told_from_sentences_that_only_begin_like_it():
    remedy = (Command("HOME=/h kimi -w '/a b'"), "leave with /quit", "corral ps shows which process it is")
    report = report_plan(Refused(reason=Refusal.WORK_DIR_UNREGISTERED, message="it is not listed", remedy=remedy))
    assert report.remedy == ("HOME=/h kimi -w '/a b'", "leave with /quit", "corral ps shows which process it is")
    assert report.commands == ("HOME=/h kimi -w '/a b'",)
