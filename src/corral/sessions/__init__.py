"""Who is live: every session of this machine, judged from what its provider, its processes and its claims say.

The door of the room: others call these functions, and each imports what it needs when it is called.
`corral.sessions()` is a question of the public API, and this package has the same name: so it can be called.
"""

from __future__ import annotations

import sys
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from corral.model.change import WatchEvent
    from corral.model.key import SessionKey
    from corral.model.record import Exchange
    from corral.model.selection import Selection
    from corral.model.session import Appearance, Session, StateWord, Survey
    from corral.model.session_report import SessionReport, SurveyReport
    from corral.model.verdict import ClaimVerdict, State
    from corral.providers.contract import Provider
    from corral.sessions.doctor import Diagnosis as Diagnosis
    from corral.sessions.doctor import HomeHealth as HomeHealth
    from corral.sessions.doctor import ProviderFacts as ProviderFacts
    from corral.sessions.doctor import ProviderHealth as ProviderHealth
    from corral.sessions.watcher import Watcher as Watcher
    from corral.sidecar import Refusal


def take_survey(selection: Selection, providers: Sequence[Provider] | None = None) -> Survey:
    """What is true now of the sessions that are asked about, of these providers or of all."""
    from corral.sessions.survey import take_survey

    return take_survey(selection, providers)


def list_sessions(*, provider: str | None = None, states: Collection[State] | None = None) -> list[Session]:
    """Every session on this machine as it is now, newest first; narrowed to a provider or to some states.

    Reads disk and process table; starts nothing, writes nothing of a provider's. Takes about as long as `corral ps`.
    """
    from corral.model.selection import Selection
    from corral.providers.registry import find_provider

    survey = take_survey(
        Selection(states=frozenset(states) if states is not None else None),
        [find_provider(provider)] if provider is not None else None,
    )
    return sorted(survey.sessions, key=lambda session: session.updated_at or 0.0, reverse=True)


def find_session(name: str) -> Session:
    """The one session of that name: an id, a unique prefix of it, or provider:id. Raises NotFound, Ambiguous."""
    from corral.sessions.naming import find_session

    return find_session(name)


def full_name(session: Session) -> str:
    """A name that is not ambiguous within one home."""
    from corral.sessions.naming import full_name

    return full_name(session)


def read_last_exchanges(session: Session, most: int) -> Sequence[Exchange]:
    """The end of its conversation, oldest first, read now and kept nowhere; empty where its provider can't.

    Raises CorralError when its provider failed.
    """
    from corral.errors import CorralError
    from corral.providers.asking import Asker
    from corral.providers.registry import find_provider

    record = session.record
    if record is None:
        return ()
    provider, asker = find_provider(session.provider), Asker()
    read = provider.transcript.read_last
    found = list(asker.each(provider, "read the last exchanges", lambda: read(record, most)))
    if asker.degraded:
        raise CorralError(f"the conversation of {session.key} could not be read: {asker.degraded[0].reason}")
    return found


def appearance_of(session: Session) -> Appearance:
    """Its word, sign and colour, whether it needs you, and its place in a list: the same in every view."""
    from corral.sessions.decide.state import decide_appearance

    return decide_appearance(session)


def list_state_words() -> tuple[StateWord, ...]:
    """Each state with its word, sign and colour, in the order of a list."""
    from corral.sessions.decide.state import STATE_WORDS

    return STATE_WORDS


def report_session(session: Session, *, dismissed: bool = False) -> SessionReport:
    """One session as JSON has it. `dismissed`: the person has dismissed this loss."""
    from corral.sessions.report import report_session

    return report_session(session, dismissed=dismissed)


def report_survey(survey: Survey) -> SurveyReport:
    """A whole survey as JSON has it."""
    from corral.sessions.report import report_survey

    return report_survey(survey)


def session_ref(key: SessionKey) -> str:
    """A short, stable handle, so that no path or id is needed to name a session."""
    from corral.sessions.naming import session_ref

    return session_ref(key)


def watch_sessions(on_events: Callable[[Sequence[WatchEvent]], None], *, also: Iterable[str] = ()) -> Watcher:
    """Reports what changes, also in these directories, from its own thread once it is started."""
    from corral.sessions.watcher import Watcher

    return Watcher(on_events, also=also)


def has_ended(pid: int) -> bool:
    """Whether there is no such process; False also when that is not known."""
    from corral.machine.probe import probe
    from corral.model.process import ProcessState

    return probe(pid, None).state is ProcessState.GONE


def check_sidecar(path: str) -> ClaimVerdict | Refusal:
    """One runtime.json judged by the full procedure, or why it is not a valid claim."""
    from corral.sessions.judging import check_sidecar

    return check_sidecar(path)


def list_provider_facts() -> list[ProviderFacts]:
    """Each provider with its installed program and whether our hooks are in its home."""
    from corral.sessions.doctor import list_provider_facts

    return list_provider_facts()


def examine() -> Diagnosis:
    """A check-up: what is installed, what was found where, what could not be read, and what would help."""
    from corral.sessions.doctor import examine

    return examine()


class _Room(ModuleType):
    def __call__(self, *, provider: str | None = None, states: Collection[State] | None = None) -> list[Session]:
        return list_sessions(provider=provider, states=states)


sys.modules[__name__].__class__ = _Room
