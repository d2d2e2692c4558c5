"""The ends of processes that others asked to be told of: each is held by a pidfd, so that the kernel tells."""

from __future__ import annotations

import os
from collections.abc import Collection

from corral.sidecar.identity import ProcessIdentity
from corral.sidecar.processes import read_identity


class Deaths:
    """For one thread. Where there are no pidfds, or no descriptors left, nothing is told."""

    def __init__(self) -> None:
        self._held: dict[ProcessIdentity, int] = {}

    @property
    def fds(self) -> Collection[int]:
        """What to poll: readable when one has ended."""
        return self._held.values()

    def follow(self, wanted: Collection[ProcessIdentity]) -> bool:
        """These and no others from now on. True when one of them has ended already."""
        for identity in [one for one in self._held if one not in wanted]:
            os.close(self._held.pop(identity))
        missed = False
        for identity in wanted:
            if identity in self._held or not hasattr(os, "pidfd_open"):
                continue
            try:
                fd = os.pidfd_open(identity.pid)
            except ProcessLookupError:
                missed = True
                continue
            except OSError:
                continue
            if read_identity(identity.pid) == identity:
                self._held[identity] = fd
            else:
                os.close(fd)
                missed = True
        return missed

    def take(self, ready: Collection[int]) -> bool:
        """Whether one of them has ended, by what the poll gave; it is not followed any more."""
        ended = [identity for identity, fd in self._held.items() if fd in ready]
        for identity in ended:
            os.close(self._held.pop(identity))
        return bool(ended)
