"""Databases that several threads of the server have open while other programs come and go."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from corral.sessions.cache import Cache
from corral.state.private_file import make_private
from corral.usage.ledger import Ledger


@pytest.mark.parametrize(
    ("kind", "program"),
    [
        (Cache, "from corral.sessions.cache import Cache as Kind"),
        (Ledger, "from corral.usage.ledger import Ledger as Kind"),
    ],
)
def test_a_program_that_leaves_takes_nothing_from_one_that_stays(kind, program, tmp_path):
    first = kind(str(tmp_path))
    kind(str(tmp_path)).close()  # as another thread of the same program does
    log = next(path for path in os.listdir(tmp_path) if path.endswith("-wal"))
    leave = f"{program}\nimport sys\nKind(sys.argv[1]).close()"
    subprocess.run([sys.executable, "-c", leave, str(tmp_path)], check=True, timeout=60)
    # The last one to leave takes the log along. It was not the last: `first` still writes to it.
    assert log in os.listdir(tmp_path)
    first.close()


def test_it_is_made_for_its_owner_alone(tmp_path):
    make_private(str(tmp_path / "made"))
    assert (tmp_path / "made").stat().st_mode & 0o777 == 0o600
    (tmp_path / "made").write_text("kept")
    make_private(str(tmp_path / "made"))
    assert (tmp_path / "made").read_text() == "kept"


def test_a_link_and_a_directory_are_refused(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "directory").mkdir()
    for name in ("link", "directory"):
        with pytest.raises(OSError, match="not a regular file"):
            make_private(str(tmp_path / name))
    assert not (tmp_path / "elsewhere").exists()
