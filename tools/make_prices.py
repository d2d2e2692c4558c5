"""Makes the price table of the package from the installed genai-prices and the supplement."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

from corral.prices import TABLE
from corral.prices.build import build_table


def main() -> None:
    """The day is today's, or the one given as YYYY-MM-DD."""
    day = sys.argv[1] if len(sys.argv) > 1 else datetime.now(UTC).date().isoformat()
    Path(TABLE).write_text(build_table(day), encoding="utf-8")


if __name__ == "__main__":
    main()
