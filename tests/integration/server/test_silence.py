"""A stopped holder on the page: said within seconds, with its pid; the page comes back when the holder does."""

from __future__ import annotations

import os
import signal

import pytest
from websockets.exceptions import ConnectionClosed

from tests.integration.terminals.test_silence import stop

TRY_AGAIN = 1013


def test_a_terminal_whose_holder_stopped_says_so_and_comes_back_with_it(serving, world):
    tab = serving.start_tab()
    viewer = serving.terminal(tab)
    viewer.read_until(b"session ")
    holder = world.tab(tab)["holder_pid"]
    stop(holder)
    viewer.type(b"is anybody there?")
    with pytest.raises(ConnectionClosed) as closed:
        for _ in range(100):
            viewer.step()
    (failed,) = [one["failed"] for one in viewer.controls if "failed" in one]
    assert failed["code"] == "not_answering"
    assert f"pid {holder}, is stopped: kill -CONT {holder}" in failed["message"]
    assert closed.value.rcvd.code == TRY_AGAIN

    with pytest.raises(ConnectionClosed) as closed:
        serving.terminal(tab)
    assert closed.value.rcvd.code == TRY_AGAIN
    refused = serving.ask("POST", f"/api/tabs/{tab}/end", {})
    assert (refused.status, refused.reason) == (409, "not_answering")
    os.kill(holder, signal.SIGCONT)
    serving.terminal(tab).read_until(b"is anybody there?")
