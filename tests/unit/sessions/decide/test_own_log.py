"""What the logs of processes prove: one session, none, or that another record is in doubt."""

from __future__ import annotations

from msgspec import structs

from corral.model.claim import AUTHORITY, ClaimKind
from corral.model.process import Opening, OwnLog, Recognised
from corral.model.verdict import ClaimVerdict, Liveness
from corral.sessions.decide.claims import log_claims, settle_logs, weigh_logs
from tests.unit.sessions.decide.facts import claim, identity


def process(pid: int, *lines: tuple[int, str], whole: bool = True, inode: int = 7) -> Recognised:
    openings = tuple(Opening(place, session_id, float(place)) for place, session_id in lines)
    log = OwnLog(path="/h/.kimi/logs/kimi.log", pid=pid, file=(1, inode), openings=openings, whole=whole)
    return Recognised(provider="kimi-cli", identity=identity(pid), started_at=0.0, home="/h/.kimi", group=pid, log=log)


def claimed(*processes: Recognised) -> dict[int, str]:
    return {one.pid: one.session_id for one in log_claims(processes)}


def live(pid: int, session_id: str, kind: ClaimKind = ClaimKind.JOURNAL, **changes: object) -> ClaimVerdict:
    return ClaimVerdict(
        claim=claim(pid, session_id, kind=kind, **changes),
        liveness=Liveness.LIVE,
        rule="exact",
        reason="",
        identity=identity(pid),
    )


class TestClaims:
    def test_a_single_session_is_claimed_with_the_identity_of_the_process(self) -> None:
        (found,) = log_claims([process(10, (100, "a"))])
        assert (found.kind, found.session_id, found.scope) == (ClaimKind.LOG, "a", None)
        assert (found.boot_id, found.pid_ns, found.pid, found.start_ticks) == identity(10)

    def test_the_same_session_named_twice_is_one(self) -> None:
        assert claimed(process(10, (100, "a"), (200, "a"))) == {10: "a"}

    def test_nothing_is_claimed_of_several_sessions_of_none_or_of_a_log_with_gaps(self) -> None:
        assert claimed(process(10, (100, "a"), (200, "b"))) == {}
        assert claimed(process(10)) == {}
        assert claimed(process(10, (100, "a"), whole=False)) == {}
        assert log_claims([structs.replace(process(10, (100, "a")), home=None)]) == []
        assert log_claims([structs.replace(process(10, (100, "a")), log=None)]) == []

    def test_it_ranks_below_reports_and_above_files_in_the_session(self) -> None:
        assert AUTHORITY[ClaimKind.JOURNAL] < AUTHORITY[ClaimKind.LOG] < AUTHORITY[ClaimKind.RUNTIME]


class TestWhoseLineItIs:
    def test_a_line_that_is_surely_anothers_is_no_candidate(self) -> None:
        first, second = process(10, (100, "a"), (200, "b")), process(11, (200, "b"))
        assert claimed(first, second) == {10: "a", 11: "b"}
        assert claimed(first) == {}

    def test_one_found_so_tells_the_next(self) -> None:
        third = process(12, (100, "a"), (200, "b"), (300, "c"))
        assert claimed(third, process(11, (100, "a"), (200, "b")), process(10, (100, "a"))) == {
            10: "a",
            11: "b",
            12: "c",
        }

    def test_a_line_of_another_file_is_another_line(self) -> None:
        assert claimed(process(10, (100, "a"), (200, "b")), process(11, (200, "b"), inode=8)) == {11: "b"}

    def test_of_two_lines_of_one_session_it_is_not_known_which_is_whose(self) -> None:
        """One of them may be forged, or the first process's own."""
        first = process(10, (100, "a"), (200, "b"), (300, "b"))
        assert claimed(first, process(11, (200, "b"), (300, "b"))) == {11: "b"}
        assert [line.place for line in settle_logs([first])[identity(10)]] == [100, 200, 300]

    def test_a_log_with_gaps_takes_nothing_from_others(self) -> None:
        assert claimed(process(10, (100, "a"), (200, "b")), process(11, (200, "b"), whole=False)) == {}

    def test_two_that_can_have_the_same_two_lines_have_neither(self) -> None:
        assert claimed(process(10, (100, "a"), (200, "b")), process(11, (100, "a"), (200, "b"))) == {}


class TestDoubt:
    def weigh(self, *verdicts: ClaimVerdict, log: Recognised) -> list[tuple[Liveness, str, str | None]]:
        return [(one.liveness, one.rule, one.claim.scope) for one in weigh_logs(verdicts, [log])]

    def test_a_report_of_a_session_that_the_log_does_not_name_is_in_doubt_and_so_is_the_log(self) -> None:
        told = self.weigh(live(10, "b"), live(10, "a", ClaimKind.LOG, scope=None), log=process(10, (100, "a")))
        assert told == [(Liveness.UNKNOWN, "disagree", "bucket"), (Liveness.UNKNOWN, "disagree", None)]
        (told,) = self.weigh(live(10, "c"), log=process(10, (100, "a"), (200, "b")))
        assert told[:2] == (Liveness.UNKNOWN, "disagree")

    def test_one_that_it_names_among_others_stands(self) -> None:
        assert self.weigh(live(10, "b"), log=process(10, (100, "a"), (200, "b"))) == [
            (Liveness.LIVE, "exact", "bucket")
        ]

    def test_a_log_with_gaps_and_the_log_of_another_raise_no_doubt(self) -> None:
        assert self.weigh(live(10, "b"), log=process(10, (100, "a"), whole=False))[0][0] is Liveness.LIVE
        assert self.weigh(live(11, "b"), log=process(10, (100, "a")))[0][0] is Liveness.LIVE

    def test_a_server_of_many_and_our_own_launch_are_no_conflict(self) -> None:
        log = process(10, (100, "a"))
        assert self.weigh(live(10, "b", many=True), log=log)[0][0] is Liveness.LIVE
        launch = live(10, "b", ClaimKind.LAUNCH)
        assert [told[0] for told in self.weigh(launch, live(10, "a", ClaimKind.LOG, scope=None), log=log)] == [
            Liveness.LIVE,
            Liveness.LIVE,
        ]

    def test_the_log_takes_the_container_from_what_names_the_same_session(self) -> None:
        told = self.weigh(live(10, "a"), live(10, "a", ClaimKind.LOG, scope=None), log=process(10, (100, "a")))
        assert told == [(Liveness.LIVE, "exact", "bucket"), (Liveness.LIVE, "exact", "bucket")]
