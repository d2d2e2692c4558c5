"""The log for machines: rotated, private, and never in the way of work."""

from __future__ import annotations

import json
import os
import stat

from corral.machine.event_log import KEPT, LIMIT_BYTES, EventLog


def test_every_event_is_one_line_of_json(tmp_path):
    log = EventLog(str(tmp_path / "log"))
    log.write("tab_opened", tab="a\nb", argument="100 %s")
    log.write("tab_closed", tab="Größe")
    first, second = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert (first["event"], first["tab"], first["argument"]) == ("tab_opened", "a\nb", "100 %s")
    assert (second["event"], second["tab"]) == ("tab_closed", "Größe")
    assert stat.S_IMODE((tmp_path / "log").stat().st_mode) == 0o600


def test_a_full_file_makes_room_and_only_the_last_ones_are_kept(tmp_path):
    log = EventLog(str(tmp_path / "log"))
    for number in range(KEPT + 2):
        log.write("filled", number=number, text="x" * LIMIT_BYTES)
    names = sorted(os.listdir(tmp_path))
    assert names == ["log", *(f"log.{number}" for number in range(1, KEPT + 1))]
    newest_first = [json.loads((tmp_path / name).read_text())["number"] for name in names]
    assert newest_first == list(range(KEPT + 1, 0, -1))


def test_a_log_that_was_taken_away_begins_anew(tmp_path):
    log = EventLog(str(tmp_path / "log"))
    log.write("one")
    os.remove(tmp_path / "log")
    log.write("two")
    assert json.loads((tmp_path / "log").read_text())["event"] == "two"


def test_what_can_not_be_written_is_lost_without_a_word(tmp_path, capfd):
    EventLog(str(tmp_path / "missing" / "log")).write("lost")
    (tmp_path / "link").symlink_to("/dev/full")
    EventLog(str(tmp_path / "link")).write("lost")
    EventLog("/dev/full").write("lost")
    assert capfd.readouterr() == ("", "")
