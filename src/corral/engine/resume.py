"""Becoming the agent: the last checks, a lease, a launch record, then exec in place of this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import NoReturn

from msgspec import structs

from corral.engine.catalogue import find_provider
from corral.engine.naming import find_session, full_name
from corral.engine.selection import Selection
from corral.engine.survey import take_survey
from corral.errors import CorralError
from corral.model.claim import ClaimKind
from corral.model.restore import Attach, Refusal, Refused, RestorePlan, Resume, Wait
from corral.model.session import Session
from corral.model.verdict import Liveness
from corral.providers import Capabilities, Provider
from corral.sidecar.processes import own_identity
from corral.store.launches import Launch, Launches, find_damage
from corral.system import places
from corral.system.text import printable
from corral.verdicts.restore_plan import refuse_live

_HOME_WAIT_SECONDS = 120.0
_GUARD_SECONDS = 120.0
_TURN_SECONDS = 15.0
"""kimi 1.51 reads and writes its registry within the first seconds of a start (2026-11)."""
_GUARD_STEP_SECONDS = 0.25


def plan_to_resume(name: str, *, anyway: bool) -> tuple[Session, Resume]:
    """The session and what would be started, or the refusal as an error."""
    session = find_session(name, anyway=anyway, probing=True)
    match plan := _refuse_served(session.restore):
        case Resume():
            return session, plan
        case Refused():
            raise refusal_error(session, plan)


def plan_restore_of(name: str, *, anyway: bool) -> Resume | Refused:
    """The same as a value."""
    return _refuse_served(find_session(name, anyway=anyway, probing=True).restore)


def _refuse_served(plan: RestorePlan) -> Resume | Refused:
    """A resume is refused where one would attach or wait."""
    match plan:
        case Attach():
            return refuse_live(plan)
        case Wait():
            return Refused(reason=Refusal.ALREADY_LIVE, message=f"pid {plan.pid} is starting it right now")
        case Resume() | Refused():
            return plan


def refusal_error(session: Session, refused: Refused) -> CorralError:
    hint = "\n  ".join(map(printable, refused.remedy)) if refused.remedy else None
    message = f"{full_name(session)} is not resumed ({refused.reason}): {printable(refused.message)}"
    return CorralError(message, hint=hint)


def resume_in_place(name: str, *, anyway: bool, tell: Callable[[str], None]) -> NoReturn:
    """Replace this process by the agent on that session. Returns only by raising."""
    session, _ = plan_to_resume(name, anyway=anyway)
    provider = find_provider(session.provider)
    capabilities = provider.capabilities
    launches = Launches(places.state_dir())
    locks = _take_locks(session, capabilities, launches, tell)
    # Again, now that nobody else can start it: what was true before the wait may not be true any more.
    session, plan = plan_to_resume(full_name(session, with_home=True), anyway=anyway)
    launch = _record_launch(session, plan, provider, launches)
    _leave_guard(launch, launches, locks)
    try:
        os.chdir(plan.cwd)
        os.execve(plan.argv[0], list(plan.argv), child_environment(os.environ, capabilities, plan.env))
    except OSError as error:
        raise refusal_error(
            session, Refused(reason=Refusal.SPAWN_FAILED, message=f"{plan.argv[0]}: {error.strerror}")
        ) from error


def child_environment(
    environ: Mapping[str, str], capabilities: Capabilities, added: Mapping[str, str]
) -> dict[str, str]:
    """corral's own environment less what would mislead the child, plus the home's variable."""
    dropped = {*capabilities.poison, *capabilities.home_variables}
    return {name: value for name, value in environ.items() if name not in dropped} | dict(added)


def _take_locks(
    session: Session, capabilities: Capabilities, launches: Launches, tell: Callable[[str], None]
) -> list[int]:
    try:
        lease = launches.lock_session(session.key)
        if lease is None:
            raise refusal_error(
                session,
                Refused(
                    reason=Refusal.ALREADY_LIVE,
                    message="another corral has started it, and that start has not been confirmed yet",
                    remedy=("corral ps shows which process it is",),
                ),
            )
        if not capabilities.starts_one_at_a_time:
            return [lease]
        turn = launches.lock_home(session.key, 0.0)
        if turn is None:
            tell(f"waiting: {capabilities.title} can't be started twice at once")
            turn = launches.lock_home(session.key, _HOME_WAIT_SECONDS)
        if turn is None:
            raise refusal_error(
                session,
                Refused(
                    reason=Refusal.SPAWN_FAILED,
                    message=f"another start of {capabilities.title} did not finish in {_HOME_WAIT_SECONDS:.0f} s",
                ),
            )
        return [lease, turn]
    except OSError as error:
        raise _not_durable(session, error) from error


def _record_launch(session: Session, plan: Resume, provider: Provider, launches: Launches) -> Launch:
    me = own_identity()
    if me is None or session.record is None:
        raise CorralError("this platform does not say which process this is, so the start could not be verified")
    try:
        copies = (
            (launches.keep_copy(session.key, provider.transcript_path(session.record)),)
            if provider.capabilities.may_destroy_transcript
            else ()
        )
        launch = Launch(
            key=session.key,
            identity=(me.boot_id, me.pid_ns, me.pid, me.start_ticks),
            launched_at=time.time(),
            argv=plan.argv,
            cwd=plan.cwd,
            copies=copies,
        )
        launches.write(launch)
        launches.sweep(time.time())
    except OSError as error:
        raise _not_durable(session, error) from error
    return launch


def _not_durable(session: Session, error: OSError) -> CorralError:
    message = f"the start could not be recorded first: {error.filename or places.state_dir()}: {error.strerror}"
    return refusal_error(session, Refused(reason=Refusal.SPAWN_FAILED, message=message))


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
        _guard(launch, launches, locks[1:])
    except Exception as error:  # noqa: BLE001 - it must not run on as a second corral, nor fail unseen
        told = f"what became of the session could not be checked after the start: {error!r}"
        launches.write(structs.replace(launch, problem=told))
    finally:
        os._exit(0)


def _guard(launch: Launch, launches: Launches, turn: list[int]) -> None:
    pid = launch.process.pid
    death = os.pidfd_open(pid)
    deadline = time.monotonic() + _GUARD_SECONDS
    while time.monotonic() < deadline and not _has_died(death, _GUARD_STEP_SECONDS):
        source = _confirmed_source(launch)
        if source is None:
            while turn and time.time() - launch.launched_at > _TURN_SECONDS:
                os.close(turn.pop())
            continue
        problem = find_damage(launch)
        if problem is None and source == "startup" and launch.copies:
            copy = launch.copies[0].copy
            problem = f"the CLI began a new conversation instead of resuming this one; a copy of it is at {copy}"
        launches.write(structs.replace(launch, confirmed=problem is None, problem=problem))
        return
    if problem := find_damage(launch):
        launches.write(structs.replace(launch, problem=problem))


def _has_died(pidfd: int, wait_seconds: float) -> bool:
    import select

    return bool(select.select([pidfd], [], [], wait_seconds)[0])


def _confirmed_source(launch: Launch) -> str | None:
    """How the provider says the session began in our process (or a descendant of it); None until it says so.

    Empty when it says that the session is there, but not how it began.
    """
    from corral.system.processes import ProcessTable

    survey = take_survey(Selection(id_prefix=launch.key.session_id), [find_provider(launch.key.provider)])
    session = next((one for one in survey.sessions if one.key == launch.key), None)
    if session is None:
        return None
    table = ProcessTable()
    sources: list[str] = []
    for judged in session.verdict.evidence:
        if judged.liveness is not Liveness.LIVE or judged.identity is None or judged.claim.kind is ClaimKind.LAUNCH:
            continue
        process = table.find(judged.identity.pid)
        line = [judged.identity.pid, *(one.pid for one in table.ancestors(process))] if process else []
        if launch.process.pid in line:
            sources.append(judged.claim.source or "")
    return max(sources, default=None)
