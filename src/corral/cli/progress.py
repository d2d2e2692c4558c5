"""A bar while logs are read for the first time."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from corral.machine.text import control

if TYPE_CHECKING:
    from corral.usage import Progress


def progress_bar() -> Callable[[Progress], None] | None:
    """Only on a terminal, and only once a scan has taken a while."""
    if not sys.stderr.isatty():
        return None
    begun = time.monotonic()

    def show(progress: Progress) -> None:
        if time.monotonic() - begun < 0.5 or not progress.total_bytes:
            return
        share = progress.done_bytes / progress.total_bytes
        begin, end = control("\r"), control("\r\x1b[K") if share >= 1 else ""
        bar = "█" * int(share * 30)
        print(f"{begin}reading logs {bar:<30} {share:4.0%}{end}", end="", file=sys.stderr, flush=True)

    return show
