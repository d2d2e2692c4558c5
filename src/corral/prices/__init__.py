"""The price table that corral ships, and how it is made."""

from __future__ import annotations

import os

TABLE = os.path.join(os.path.dirname(__file__), "table.json")
SUPPLEMENT = os.path.join(os.path.dirname(__file__), "supplement.toml")
