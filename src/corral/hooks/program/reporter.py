"""What the hook program asks a provider: `providers/<name>/reporter.py` answers, with the standard library alone.

A package that has a `reporter.py` is bundled into the hook program; there is no list. The module may import the
standard library, `corral.sidecar`, `corral.providers.kit.caller` and `corral.providers.kit.reported`, and nothing
else: it runs by itself, without corral's environment, while the CLI waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from corral.providers.kit.caller import Caller
    from corral.providers.kit.reported import Payload, Told

EVENT_VARIABLE = "CORRAL_HOOK_EVENT"
"""Where our command line names the event, for a CLI whose payload does not."""


class Reporter(Protocol):
    """What a provider's `reporter.py` offers, as names of the module.

    `recognise` is asked first, then `read`. After that `payload["session_id"]` is what `read` said, and has been
    checked; all else in it is foreign.
    """

    name: str
    """The provider's: "kimi-cli"."""
    moves_on_start: bool
    """A start means that the process has left its other session, whether it reported that end or not."""

    def read(self, payload: Payload, event: str | None) -> Told | None:
        """What the CLI reports, in its own dialect; None for an event that does not concern us.

        `event` is the one that our command line names, which only a file of our own does.
        """
        ...

    def recognise(self, caller: Caller, payload: Payload) -> bool | None:
        """True: this is the CLI. None: it may be, and is if our command line says so. False: it is not.

        Our command line is not enough to go by: a CLI may have copied another's configuration, hooks included.
        """
        ...

    def find_home(self, caller: Caller) -> str:
        """The data root in force, absolute."""
        ...

    def find_scope(self, caller: Caller, payload: Payload, home: str) -> str | None:
        """The scope of the reported session's key; None when not exactly one can be told."""
        ...

    def find_work_dir(self, caller: Caller, payload: Payload, scope: str | None) -> str | None:
        """The session's work directory, absolute, links kept as given; None when it can't be told."""
        ...

    def find_model(self, payload: Payload, home: str) -> tuple[str | None, str | None]:
        """The model in force, and where that was read."""
        ...

    def find_version(self, caller: Caller) -> str | None:
        """The version of the running program, or None: nothing is run to find out."""
        ...

    def serves_many(self, caller: Caller, home: str) -> bool:
        """True if the process can serve several sessions at once (`acp`, `web`, `serve`), as far as can be told."""
        ...

    def session_dir(self, home: str, scope: str, session_id: str) -> str | None:
        """Where the hook keeps runtime.json for this session; None if it is not to write any."""
        ...
