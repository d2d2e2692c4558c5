"""Becoming the agent: the last checks, a lease, a launch record, then exec in place of this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable
from typing import NoReturn

from msgspec import structs

from corral.engine.catalogue import find_provider
from corral.engine.guard import guard_launch
from corral.engine.hook_settings import find_silence
from corral.engine.launch import child_environment, keep_copies, not_recorded, not_started, take_locks
from corral.engine.naming import find_session, full_name
from corral.engine.selection import Selection
from corral.engine.survey import take_survey
from corral.errors import CorralError
from corral.model.restore import Attach, Loss, Refusal, Refused, RestorePlan, Resume, Wait
from corral.model.session import Session
from corral.providers import Provider
from corral.sidecar.processes import own_identity
from corral.store.launches import Launch, Launches
from corral.system import places
from corral.verdicts.attribution import YOUNG_S
from corral.verdicts.restore_plan import refuse_live

_STEP_SECONDS = 0.5
Consent = Callable[[Loss], bool]
"""Whether the person agrees that exactly this is dropped."""


def refuse_any_loss(loss: Loss) -> bool:
    return False


def agree_from_line(line: int | None) -> Consent:
    """To a loss that begins at this line, and to no other: the file may have changed since the person was asked."""
    return lambda loss: loss.line == line


def plan_to_resume(
    name: str, *, anyway: bool, consent: Consent = refuse_any_loss, tell: Callable[[str], None] = lambda _: None
) -> tuple[Session, Resume]:
    """The session and what would be started, or the refusal as an error.

    An agent that has just started may be about to open it: its first word is waited for.
    """
    session = _find_settled(name, anyway, tell)
    match plan := _decide(session.restore, consent):
        case Resume():
            return session, plan
        case Refused():
            raise refusal_error(session, plan)


def _find_settled(name: str, anyway: bool, tell: Callable[[str], None]) -> Session:
    """The session once every agent that has just started within reach of it has spoken, ended, or been silent."""
    session = find_session(name, anyway=anyway, probing=True)
    awaited: set[int] = set()
    deadline = time.monotonic() + YOUNG_S + _STEP_SECONDS
    while isinstance(session.restore, Resume) and (young := set(session.verdict.awaited_pids)):
        if time.monotonic() > deadline:
            break
        if young - awaited:
            awaited |= young
            tell(f"waiting: pid {_name(young)} has just started, and has not said which session it opens")
        time.sleep(_STEP_SECONDS)
        session = find_session(name, anyway=anyway, probing=True)
    if anyway or not awaited or not isinstance(session.restore, Resume):
        return session
    nothing = Selection(states=frozenset())
    silent = {one.pid for one in take_survey(nothing, [find_provider(session.provider)]).no_session_yet}
    if still := awaited & silent:
        raise refusal_error(session, _refuse_silent(_name(still)))
    return session


def _name(pids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(pids)))


def _refuse_silent(pids: str) -> Refused:
    return Refused(
        reason=Refusal.MAYBE_OPEN,
        message=f"pid {pids} has just started in its directory, and may be about to open it",
        remedy=(
            f"look at pid {pids}: it may ask something first; then try again",
            "resume it anyway with --anyway, if you know that it is not open there",
        ),
    )


def plan_restore_of(name: str, *, anyway: bool, consent: Consent = refuse_any_loss) -> Resume | Refused:
    """The same as a value."""
    return _decide(find_session(name, anyway=anyway, probing=True).restore, consent)


def _decide(plan: RestorePlan, consent: Consent) -> Resume | Refused:
    """A resume is refused where one would attach or wait, and where it would drop what nobody agreed to drop."""
    match plan:
        case Refused(loss=Loss() as loss, agreed=Resume() as resume) if consent(loss):
            return resume
        case Attach():
            return refuse_live(plan)
        case Wait():
            return Refused(reason=Refusal.ALREADY_LIVE, message=f"pid {plan.pid} is starting it right now")
        case Resume() | Refused():
            return plan


def refusal_error(session: Session, refused: Refused) -> CorralError:
    return not_started(f"{full_name(session)} is not resumed", refused)


def resume_in_place(
    name: str, *, anyway: bool, tell: Callable[[str], None], consent: Consent = refuse_any_loss
) -> NoReturn:
    """Replace this process by the agent on that session. Returns only by raising."""
    session, _ = plan_to_resume(name, anyway=anyway, consent=consent, tell=tell)
    provider = find_provider(session.provider)
    capabilities = provider.capabilities
    launches = Launches(places.state_dir())
    locks = take_locks(f"{full_name(session)} is not resumed", session.key, capabilities, launches, tell)
    # Again, now that nobody else can start it: what was true before the wait may not be true any more.
    session, plan = plan_to_resume(full_name(session, with_home=True), anyway=anyway, consent=consent, tell=tell)
    launch = _record_launch(session, plan, provider, launches)
    _leave_guard(launch, launches, locks)
    try:
        os.chdir(plan.cwd)
        os.execve(plan.argv[0], list(plan.argv), child_environment(os.environ, capabilities, plan.env))
    except OSError as error:
        raise refusal_error(
            session, Refused(reason=Refusal.SPAWN_FAILED, message=f"{plan.argv[0]}: {error.strerror}")
        ) from error


def _record_launch(session: Session, plan: Resume, provider: Provider, launches: Launches) -> Launch:
    me = own_identity()
    if me is None:
        raise CorralError("this platform does not say which process this is, so the start could not be verified")
    try:
        launch = Launch(
            key=session.key,
            identity=(me.boot_id, me.pid_ns, me.pid, me.start_ticks),
            launched_at=time.time(),
            argv=plan.argv,
            cwd=plan.cwd,
            copies=keep_copies(session, provider, launches),
            silence=find_silence(provider, session.key.home),
        )
        launches.write(launch)
        launches.sweep(time.time())
    except OSError as error:
        raise not_recorded(f"{full_name(session)} is not resumed", error) from error
    return launch


def _leave_guard(launch: Launch, launches: Launches, locks: list[int]) -> None:
    """A small process of its own that keeps the locks until the provider confirms the session, then checks it.

    Forked twice: the agent must not get a child that it never started.
    """
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        for fd in locks:
            os.close(fd)
        return
    try:
        os.setsid()
        if os.fork():
            os._exit(0)
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        guard_launch(launch, launches, locks[1:])
    except Exception as error:  # noqa: BLE001 - it must not run on as a second corral, nor fail unseen
        told = f"what became of the session could not be checked after the start: {error!r}"
        launches.write(structs.replace(launch, problem=told))
    finally:
        os._exit(0)
