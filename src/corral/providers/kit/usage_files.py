"""Opening a usage file for whoever reads it; one that can't be opened is a batch that says why."""

from __future__ import annotations

import os
from collections.abc import Callable

from corral.model.usage import UsageBatch, UsageSource
from corral.providers.kit.usage_batch import Gathered
from corral.sidecar.files import Unreadable, open_regular


def read_source(
    read_usage: Callable[[UsageSource, int, int], UsageBatch], source: UsageSource, since: int
) -> UsageBatch:
    """What a provider's `read_usage` finds in a file from an offset on."""
    fd = open_regular(source.path)
    if isinstance(fd, Unreadable):
        found = Gathered(source, since)
        found.skip(since, f"can't be read: {fd.reason}")
        return found.to_batch()
    try:
        return read_usage(source, since, fd)
    finally:
        os.close(fd)
