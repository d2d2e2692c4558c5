"""What must hold for every CLI, written once: each provider's contract test derives from this.

corral runs as a process of its own for each look, so every switch happens while nobody watches.
"""

from __future__ import annotations

import pytest

from tests.contract.corral_cli import Corral
from tests.contract.driver import Driver
from tests.contract.life_scenarios import LifeContract
from tests.contract.process_scenarios import ProcessContract
from tests.contract.resume_scenarios import ResumeContract


class SessionContract(LifeContract, ProcessContract, ResumeContract):
    """Derive, provide a `driver` fixture, and set the flags of the parts to what the CLI has."""

    @pytest.fixture
    def corral(self, driver: Driver) -> Corral:
        corral = Corral(driver.home, driver.name)
        corral.install_hooks()
        return corral

    @pytest.fixture
    def bare(self, driver: Driver) -> Corral:
        """corral in a home without our hooks."""
        return Corral(driver.home, driver.name)
