"""The one way to ask a provider something: what it raises, or takes too long for, costs that one step and is told.

asker = Asker()
claims = list(asker.each(provider, "read its claims", lambda: provider.list_claims(home, table)))
asker.degraded      # one entry for each step that failed
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from corral.machine.text import one_line
from corral.model.known import BrokenCache
from corral.model.session import Degraded
from corral.providers.contract import Provider

_T = TypeVar("_T")

LONGEST_S = 60.0
"""For all of one step. A cold listing of ten thousand sessions on a busy machine takes less."""
_OURS = (BrokenCache, MemoryError)
"""Not the provider's: our own cache, which a listing reads, and a machine that has nothing left to go on with."""


class Asker:
    """Asks, and keeps what went wrong."""

    def __init__(self, longest_s: float = LONGEST_S) -> None:
        self._longest_s = longest_s
        self._failed: dict[tuple[str, str], Degraded] = {}
        """By provider and step: the same step, asked of many processes, is told once."""
        self._broken: set[tuple[str, str]] = set()
        self._spent_s: dict[tuple[str, str], float] = {}
        """What the answers of a step have taken together."""

    @property
    def degraded(self) -> list[Degraded]:
        return list(self._failed.values())

    def find_failure(self, provider: Provider, step: str) -> str | None:
        """Why a step failed; None when it did not."""
        told = self._failed.get((provider.name, step))
        return told.reason if told is not None else None

    def ask(
        self,
        provider: Provider,
        step: str,
        question: Callable[[], _T],
        otherwise: Callable[[str], _T],
        *,
        about: str = "",
    ) -> _T:
        """The answer, or `otherwise`, which is given the reason.

        A step may be asked `about` many things. Once its answers have taken too long together, it is not asked again.
        """
        named = f"{step} {about}" if about else step
        spent_s = self._spent_s.get((provider.name, step), 0.0)
        if spent_s > self._longest_s:
            return otherwise(self._tell(provider, step, self._too_late()))
        began = time.monotonic()
        try:
            return question()
        except _OURS:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, the other steps are not to blame
            return otherwise(self._tell(provider, named, error))
        finally:
            self._spent_s[provider.name, step] = spent_s + time.monotonic() - began

    def each(self, provider: Provider, step: str, question: Callable[[], Iterable[_T]]) -> Iterator[_T]:
        """The answers one by one; what came before a failure, or before the time was up, counts."""
        deadline = time.monotonic() + self._longest_s
        try:
            for answer in question():
                yield answer
                if time.monotonic() > deadline:
                    raise self._too_late()
        except _OURS:
            raise
        except Exception as error:  # noqa: BLE001 - as above
            self._tell(provider, step, error)

    def is_broken(self, provider: Provider, step: str) -> bool:
        """Whether it failed by a bug, a format nobody has seen, or its time; a disk that denies is none of these."""
        return (provider.name, step) in self._broken

    def _too_late(self) -> TimeoutError:
        return TimeoutError(f"not done after {self._longest_s:.0f} s, the rest was not read")

    def _tell(self, provider: Provider, step: str, error: Exception) -> str:
        reason = say_error(error)
        if not isinstance(error, OSError) or isinstance(error, TimeoutError):
            self._broken.add((provider.name, step))
        self._failed.setdefault((provider.name, step), Degraded(provider=provider.name, step=step, reason=reason))
        return reason


def say_error(error: Exception) -> str:
    """In one line: an error of the disk speaks for itself, of others the kind says more than the text."""
    if isinstance(error, OSError):
        return str(error)
    text = one_line(str(error)) or ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
