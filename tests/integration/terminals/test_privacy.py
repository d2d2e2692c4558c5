"""What a holder writes is its user's alone, and its program has the umask of whoever started it."""

from __future__ import annotations

import os
import signal
import stat
from pathlib import Path

import pytest

from corral.terminals.files import EXIT, LOG, RECORD, SOCKET
from tests.integration.terminals.held import BASH, wait_until


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_files_and_sockets_are_private_whatever_the_umask_is(held, umask):
    before = os.umask(umask)
    try:
        started = held.start(BASH)
    finally:
        os.umask(before)
    directory = Path(held.directory)
    with held.watch(started) as view:
        view.attach()
        view.client.type(b"umask\n")
        view.wait_text(b"%04o" % umask)
    assert {kind: mode(directory / (started.tab + kind)) for kind in (SOCKET, RECORD, LOG)} == {
        SOCKET: 0o600, RECORD: 0o600, LOG: 0o600,
    }  # fmt: skip
    os.kill(started.child.pid, signal.SIGKILL)
    ended = directory / (started.tab + EXIT)  # all that is sure to stay: the viewer may have seen the end
    wait_until(ended.exists, "how it ended")
    assert mode(ended) == 0o600
    assert mode(directory) == 0o700


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)
