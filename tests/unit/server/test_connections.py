"""Connections without a proof: fairly shared among users, and little is said of them."""

from __future__ import annotations

import logging

from corral.server.connections import Crowd, FewLines


def test_other_users_of_a_full_house_do_not_push_out_the_owner():
    """The oldest of whoever has most goes; who has few stays."""

    class One:
        def __init__(self, number: int) -> None:
            self.client = ("127.0.0.1", number)
            self.transport = self
            self.gone = self.is_proven = False

        def on_proven(self) -> None:
            self.is_proven = True

        def abort(self) -> None:
            self.gone = True

    crowd = Crowd(256)
    owner = [One(number) for number in range(5)]
    for one in owner:
        crowd.enter(one, 1000)  # type: ignore[arg-type]
    others = [One(number) for number in range(1000, 3000)]
    for number, one in enumerate(others):
        crowd.enter(one, number % 3)  # type: ignore[arg-type]
    assert not any(one.gone for one in owner)
    assert sum(not one.gone for one in others) <= 64 - 5
    crowd.prove(owner[0].client)
    assert owner[0].is_proven and not owner[0].gone


def test_little_is_written_however_long_each_message_is():
    written: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            written.extend(self.format(record).splitlines())

    logger = logging.getLogger("corral.test_little_is_written")
    logger.propagate = False
    logger.addHandler(Handler())
    logger.addFilter(FewLines())
    for number in range(1000):
        try:
            raise OSError(24, "Too many open files")
        except OSError:
            logger.exception("connection %d", number)
    assert 20 <= len(written) < 30
