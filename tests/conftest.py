"""For all tests: a slow or busy machine is no defect. Every wait for another process has a minute at least."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "corral", deadline=None, database=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("corral")
