"""Fixtures of the failure stories: a home with the reference agent, and a server in it."""

from __future__ import annotations

from tests.integration.server.conftest import serving, world

__all__ = ["serving", "world"]
