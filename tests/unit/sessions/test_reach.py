"""What a silent process could have open: within its reach, and what somebody wrote whom nobody knows."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from corral.machine.processes import identify
from corral.model.process import NOTHING, WHOLE_HOME, Reach
from corral.model.verdict import Liveness
from corral.sessions.entries import Reaching, contains, forget_directories
from tests.unit.sessions.decide.facts import judged, process, record


def reach_of(*directories: Path, **more: object) -> Reach:
    forget_directories()
    found = tuple(one for path in directories if (one := identify(str(path))) is not None)
    return Reach(directories=found, **more)  # pyright: ignore[reportArgumentType]


def test_a_session_of_its_directory_is_within_reach_by_any_name(tmp_path: Path):
    here, there, link = tmp_path / "here", tmp_path / "there", tmp_path / "link"
    here.mkdir()
    there.mkdir()
    link.symlink_to(here)
    reach = reach_of(here, renamed=False)
    assert contains(reach, record(work_dir=str(here))) and contains(reach, record(work_dir=str(link)))
    assert not contains(reach, record(work_dir=str(there)))


def test_a_directory_that_is_gone_may_be_the_one_that_was_renamed(tmp_path: Path):
    gone = record(work_dir=str(tmp_path / "gone"))
    assert contains(reach_of(tmp_path), gone)
    assert not contains(reach_of(tmp_path, renamed=False), gone)
    assert contains(reach_of(tmp_path, renamed=False, paths=(str(tmp_path / "gone"),)), gone)


def test_a_session_that_it_is_known_to_have_opened_is_within_reach_wherever_it_ran(tmp_path: Path):
    assert contains(reach_of(tmp_path, ids=("s1",), renamed=False), record(work_dir="/"))


def test_the_whole_home_is_everything_and_nothing_is_nothing():
    assert contains(WHOLE_HOME, record()) and not contains(NOTHING, record())


def test_what_was_written_since_it_began_is_in_doubt_outside_its_reach_too():
    silent = structs.replace(process(10, started_at=50.0), reaches={"/h/.kimi": NOTHING})
    reaching = Reaching("/h/.kimi", [silent])
    assert reaching.doubt(record(recorded_at=49.0)).pids == ()
    found = reaching.doubt(record(recorded_at=51.0))
    assert found.pids == (10,) and found.written is not None
    explained = [judged(Liveness.STALE, 11, written_at=40.0)]
    assert reaching.doubt(record(recorded_at=51.0), explained).pids == ()


def test_no_file_time_shrinks_its_reach():
    silent = structs.replace(process(10, started_at=50.0), reaches={"/h/.kimi": WHOLE_HOME})
    assert Reaching("/h/.kimi", [silent]).doubt(record(recorded_at=1.0)).pids == (10,)
    assert Reaching("/other", [silent]).doubt(record(recorded_at=60.0)).pids == ()
