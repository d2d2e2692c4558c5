"""CPU between two looks: what ends passes its time on, and must not look as if it were spent just now."""

from __future__ import annotations

from corral.model.metering import SeenProcess
from corral.top.meter import Snapshot, cpu_spent


def look(at: float, *processes: tuple[int, int, float | None], ticks: int = 0) -> Snapshot:
    """Of (pid, parent, CPU seconds); None: not measured."""
    seen = {
        pid: SeenProcess(pid=pid, start_ticks=ticks, parent_pid=parent, group=pid, kernel_session=pid)
        for pid, parent, _ in processes
    }
    return Snapshot(at=at, seen=seen, cpu_seconds={pid: cpu for pid, _, cpu in processes if cpu is not None})


def test_what_grew_was_spent():
    assert cpu_spent(look(0, (10, 1, 5.0)), look(2, (10, 1, 6.5))) == {10: 1.5}


def test_a_child_that_ended_adds_only_what_was_not_known_of_it():
    """Also a grandchild, and also if child and parent are of different sessions."""
    before = look(0, (10, 1, 5.0), (11, 10, 100.0), (12, 11, 20.0))
    assert cpu_spent(before, look(2, (10, 1, 126.0))) == {10: 1.0}


def test_a_child_that_nobody_waited_for_makes_nothing_negative():
    assert cpu_spent(look(0, (10, 1, 5.0), (11, 10, 100.0)), look(2, (10, 1, 6.0))) == {10: 0.0}


def test_a_new_process_spent_all_it_has_and_one_that_was_not_measured_before_is_not_known():
    before = look(0, (10, 1, 5.0), (20, 1, None))
    assert cpu_spent(before, look(2, (10, 1, 5.0), (11, 10, 0.5), (20, 1, 300.0))) == {10: 0.0, 11: 0.5}


def test_a_number_that_passed_to_another_is_a_new_process():
    before = look(0, (10, 1, 50.0))
    assert cpu_spent(before, look(2, (10, 1, 0.25), ticks=9)) == {10: 0.25}
