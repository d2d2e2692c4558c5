"""What every start by corral needs: locks, a clean environment, and refusals in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from corral.errors import CorralError
from corral.model.key import SessionKey
from corral.model.restore import Refusal, Refused, say_remedy
from corral.model.session import Session
from corral.providers import Capabilities, Provider
from corral.store.launches import KeptCopy, Launches
from corral.system import places
from corral.system.text import printable

_HOME_WAIT_SECONDS = 120.0


class NotStarted(CorralError):
    """Nothing was started: a refusal, in words for the command line and as it is for other views."""

    def __init__(self, what: str, refused: Refused) -> None:
        hint = "\n  ".join(map(printable, say_remedy(refused.remedy))) if refused.remedy else None
        super().__init__(f"{what} ({refused.reason}): {printable(refused.message)}", hint=hint)
        self.refused = refused


def not_started(what: str, refused: Refused) -> NotStarted:
    """`what` says what does not happen: "… is not resumed"."""
    return NotStarted(what, refused)


def not_recorded(what: str, error: OSError) -> NotStarted:
    message = f"the start could not be recorded first: {error.filename or places.state_dir()}: {error.strerror}"
    return not_started(what, Refused(reason=Refusal.SPAWN_FAILED, message=message))


def child_environment(
    environ: Mapping[str, str], capabilities: Capabilities, added: Mapping[str, str]
) -> dict[str, str]:
    """corral's own environment less what would mislead the child, plus the home's variable."""
    dropped = {*capabilities.poison, *capabilities.home_variables}
    return {name: value for name, value in environ.items() if name not in dropped} | dict(added)


def take_locks(
    what: str, key: SessionKey, capabilities: Capabilities, launches: Launches, tell: Callable[[str], None]
) -> list[int]:
    """One start per session, and one per home where the CLI needs that: the descriptors that hold the locks."""
    try:
        lease = launches.lock_session(key)
        if lease is None:
            raise not_started(
                what,
                Refused(
                    reason=Refusal.ALREADY_LIVE,
                    message="another corral has started it, and that start has not been confirmed yet",
                    remedy=("corral ps shows which process it is",),
                ),
            )
        if not capabilities.starts_one_at_a_time:
            return [lease]
        turn = launches.lock_home(key, 0.0)
        if turn is None:
            tell(f"waiting: {capabilities.title} can't be started twice at once")
            turn = launches.lock_home(key, _HOME_WAIT_SECONDS)
        if turn is None:
            raise not_started(
                what,
                Refused(
                    reason=Refusal.SPAWN_FAILED,
                    message=f"another start of {capabilities.title} did not finish in {_HOME_WAIT_SECONDS:.0f} s",
                ),
            )
        return [lease, turn]
    except OSError as error:
        raise not_recorded(what, error) from error


def keep_copies(session: Session, provider: Provider, launches: Launches) -> tuple[KeptCopy, ...]:
    """Of what this CLI is known to destroy, or will drop now, made before it is started. Raises OSError."""
    if session.record is None:
        return ()
    drops = isinstance(session.restore, Refused) and session.restore.loss is not None
    if not drops and not provider.capabilities.may_destroy_transcript:
        return ()
    return (launches.keep_copy(session.key, provider.transcript_path(session.record)),)
