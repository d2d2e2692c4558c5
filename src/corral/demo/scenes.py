"""What a demonstration shows: invented work in three projects, one session for each state that a person meets."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from corral.demo.conversation import Tokens

HOUR = 3600.0
DAY = 24 * HOUR


class Fate(StrEnum):
    """What becomes of a session once its past is on disk."""

    IDLE = "idle"
    """Nothing serves it."""
    READY = "ready"
    """An agent runs in a tab and has nothing to do."""
    BUSY = "busy"
    """It is in a turn that takes long."""
    WAITING = "waiting"
    """It has asked something."""
    CUT_OFF = "cut off"
    """It is killed in a turn, terminal and all, and its tab is left."""
    LOST = "lost"
    """Its agent died in a turn, long before."""
    ELSEWHERE = "elsewhere"
    """Another machine claims it."""


class Turn(Struct, frozen=True):
    """What was asked and answered before."""

    asked: str
    answered: str
    tokens: Tokens


class Scene(Struct, frozen=True, kw_only=True):
    """One session."""

    title: str
    folder: str
    """Below the home directory."""
    fate: Fate
    age_seconds: float
    """How long ago the last turn ended."""
    turns: tuple[Turn, ...]
    typed: str | None = None
    """What the person types in its tab."""
    unfinished: str | None = None
    """What was asked in a last turn that never ended."""


SCENES = (
    Scene(
        title="Fix the checkout rounding",
        folder="src/shop",
        fate=Fate.WAITING,
        age_seconds=0.3 * HOUR,
        turns=(
            Turn(
                "The total is off by one cent for three items at 0.335. Why?",
                "Each line is rounded before the sum. I now sum first, and round once:\n"
                "    - total = sum(round(line.price, 2) for line in lines)\n"
                "    + total = round(sum(line.price for line in lines), 2)",
                Tokens(18_400, 96_000, 2_100),
            ),
        ),
        typed="/ask May I run npm test?",
    ),
    Scene(
        title="Rate limiter",
        folder="src/api",
        fate=Fate.READY,
        age_seconds=0.1 * HOUR,
        turns=(
            Turn(
                "Add a token bucket per client",
                "Done: api/limits.py has one bucket per client id, 100 requests a minute, and 14 tests pass.",
                Tokens(31_200, 188_000, 5_400),
            ),
            Turn(
                "Two workers allow twice the rate",
                "Right: each counted for itself. The buckets are in Redis now, and in memory for the tests.",
                Tokens(9_800, 241_000, 3_050),
            ),
        ),
    ),
    Scene(
        title="Add tests for refunds",
        folder="src/shop",
        fate=Fate.BUSY,
        age_seconds=1.2 * HOUR,
        turns=(
            Turn(
                "Which paths of refunds.py have no test?",
                "Three: a refund of more than was paid, one in another currency, and one after 30 days.",
                Tokens(22_700, 64_000, 1_300),
            ),
        ),
        typed="/slow Write a test for each of them",
    ),
    Scene(
        title="Migrate to v2",
        folder="src/api",
        fate=Fate.CUT_OFF,
        age_seconds=2 * HOUR,
        turns=(
            Turn(
                "Plan the migration of the orders table to v2",
                "1. add the new columns  2. copy in batches of 1,000  3. switch the readers  4. drop the old ones",
                Tokens(41_000, 120_000, 4_800),
            ),
        ),
        typed="/slow Run the migration",
    ),
    Scene(
        title="Upgrade the linter",
        folder="projects/website",
        fate=Fate.LOST,
        age_seconds=20 * HOUR,
        turns=(
            Turn(
                "Move to the new major version of the linter",
                "The configuration is converted. The new rules complain in 23 places.",
                Tokens(15_900, 71_000, 2_600),
            ),
        ),
        unfinished="Repair those 23 places",
    ),
    Scene(
        title="Translate the welcome page",
        folder="projects/website",
        fate=Fate.ELSEWHERE,
        age_seconds=5 * HOUR,
        turns=(
            Turn(
                "Translate welcome.md into Portuguese",
                "welcome.pt.md is there; two links lead to pages that exist in English only.",
                Tokens(12_300, 20_000, 3_900),
            ),
        ),
    ),
    Scene(
        title="Speed up the product search",
        folder="src/shop",
        fate=Fate.IDLE,
        age_seconds=1.1 * DAY,
        turns=(
            Turn(
                "Searching for 'blue' takes 900 ms. Find out why",
                "The index on name is not used: the query lowers it first. With an index on lower(name): 11 ms.",
                Tokens(54_000, 402_000, 7_700),
            ),
        ),
    ),
    Scene(
        title="Describe the API",
        folder="src/api",
        fate=Fate.IDLE,
        age_seconds=2.2 * DAY,
        turns=(
            Turn(
                "Write openapi.yaml from the routes",
                "31 routes, all of them with examples that the tests send.",
                Tokens(88_000, 310_000, 19_500),
            ),
        ),
    ),
    Scene(
        title="Dark theme",
        folder="projects/website",
        fate=Fate.IDLE,
        age_seconds=4.3 * DAY,
        turns=(
            Turn(
                "Make the site follow the system's theme",
                "All colours are variables now, with a second set for dark. The contrast is at least 4.5.",
                Tokens(36_500, 150_000, 6_100),
            ),
        ),
    ),
    Scene(
        title="Why is the build slow?",
        folder="projects/website",
        fate=Fate.IDLE,
        age_seconds=5.6 * DAY,
        turns=(
            Turn(
                "The build takes four minutes",
                "It compresses every image each time. With a cache by content it takes 40 seconds.",
                Tokens(27_100, 98_000, 2_900),
            ),
        ),
    ),
)
