"""What sessions use of the machine: CPU, memory and processes.

The door of the room: others call these functions, and each imports what it needs when it is called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from corral.model.metering import MeteredSession, Metering
    from corral.model.session import Session
    from corral.top.meter import Meter as Meter
    from corral.top.report import ShowDocument, TopDocument


def start_meter() -> Meter:
    """Its `look()` says what each live session uses; from the second look on also at which rate."""
    from corral.top.meter import Meter

    return Meter()


def meter_session(session: Session) -> MeteredSession | None:
    """What one session uses; None when nobody serves it."""
    from corral.top.meter import meter_session

    return meter_session(session)


def report_metering(metering: Metering) -> TopDocument:
    """`corral top --json`."""
    from corral.top.report import report_metering

    return report_metering(metering)


def report_shown(session: Session, metered: MeteredSession | None) -> ShowDocument:
    """`corral show --json`."""
    from corral.top.report import report_shown

    return report_shown(session, metered)
