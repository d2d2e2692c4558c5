"""Becoming the agent: the last checks, a lease, a launch record, then exec in place of this process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NoReturn

from msgspec import structs

from corral.engine.catalogue import find_provider
from corral.engine.guard import guard_launch
from corral.engine.hook_settings import find_silence
from corral.engine.launch import child_environment, keep_copies, not_recorded, not_started, take_locks
from corral.engine.naming import find_session, full_name
from corral.errors import CorralError
from corral.model.restore import Attach, Refusal, Refused, RestorePlan, Resume, Wait
from corral.model.session import Session
from corral.providers import Provider
from corral.sidecar.processes import own_identity
from corral.store.launches import Launch, Launches
from corral.system import places
from corral.verdicts.restore_plan import refuse_live


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
    return not_started(f"{full_name(session)} is not resumed", refused)


def resume_in_place(name: str, *, anyway: bool, tell: Callable[[str], None]) -> NoReturn:
    """Replace this process by the agent on that session. Returns only by raising."""
    session, _ = plan_to_resume(name, anyway=anyway)
    provider = find_provider(session.provider)
    capabilities = provider.capabilities
    launches = Launches(places.state_dir())
    locks = take_locks(f"{full_name(session)} is not resumed", session.key, capabilities, launches, tell)
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
