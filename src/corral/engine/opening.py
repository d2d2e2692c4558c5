"""Opening a tab: a fresh session or a resumed one in a terminal of ours, on record before its program begins."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import suppress

from msgspec import Struct, structs

from corral.engine.catalogue import find_provider
from corral.engine.gather import environment
from corral.engine.hook_settings import find_silence
from corral.engine.launch import child_environment, keep_copies, not_recorded, not_started, take_locks
from corral.engine.naming import full_name
from corral.engine.resume import Consent, plan_to_resume, refuse_any_loss
from corral.engine.settings import read_settings
from corral.model.key import Home, SessionKey
from corral.model.restore import Program, Refusal, Refused, Resume, Start
from corral.providers import Environment, Provider
from corral.store.bindings import Binding, Bindings, identity_fields
from corral.store.cache import Cache
from corral.store.launches import KeptCopy, Launch, Launches
from corral.system import places
from corral.terminals.client import dismiss_terminal
from corral.terminals.directory import sweep_terminals, terminals_dir
from corral.terminals.environment import terminal_environment
from corral.terminals.start import Started, StartFailed, new_tab_id, start_terminal

Size = tuple[int, int]


class Fresh(Struct, frozen=True, kw_only=True):
    """A fresh session as it would be started."""

    provider: Provider
    home: Home
    start: Start


def plan_fresh(provider_name: str, work_dir: str, *, with_arguments: bool) -> Fresh:
    """What `corral run` would start. Raises CorralError with the refusal.

    With arguments of the person's own, no id is chosen: they may say which session is meant.
    """
    provider = find_provider(provider_name)
    cache = Cache(places.cache_dir())
    env = environment(read_settings(), cache, probing=True)
    try:
        program = provider.find_program(env)
    finally:
        cache.close()
    what = f"{provider.capabilities.title} is not started"
    if refused := _check(provider, program, work_dir):
        raise not_started(what, refused)
    assert program is not None
    home = find_home(provider, env)
    picks = provider.capabilities.picks_id and not with_arguments
    start = provider.plan_start(work_dir, str(uuid.uuid4()) if picks else None, program, home)
    if isinstance(start, Refused):
        raise not_started(what, start)
    return Fresh(provider=provider, home=home, start=start)


def find_home(provider: Provider, env: Environment) -> Home:
    """The home that the CLI itself would use in this environment."""
    homes = provider.homes(env)
    named = [home for home in homes if home.origin in provider.capabilities.home_variables]
    return (named or [home for home in homes if home.is_default] or list(homes))[0]


def open_fresh(fresh: Fresh, arguments: Sequence[str], *, size: Size, tell: Callable[[str], None]) -> Started:
    """Start it in a terminal of its own. Raises CorralError."""
    what = f"{fresh.provider.capabilities.title} is not started"
    launches = Launches(places.state_dir())
    key = fresh.start.key or SessionKey(fresh.provider.name, fresh.home.path, "", new_tab_id())
    locks = take_locks(what, key, fresh.provider.capabilities, launches, tell)
    order = _Order(
        what=what,
        provider=fresh.provider,
        home=fresh.home.path,
        plan=fresh.start,
        arguments=tuple(arguments),
        wanted=fresh.start.key,
        size=size,
    )
    return _open(order, launches, locks)


def open_resumed(
    name: str,
    *,
    anyway: bool,
    size: Size,
    tell: Callable[[str], None],
    tab: str | None = None,
    agree: Callable[[str], None] | None = None,
    consent: Consent = refuse_any_loss,
) -> Started:
    """Continue a session in a terminal of its own. Raises CorralError with the refusal.

    `tab` is one that was lost or has ended, and is to be the same tab again. `agree` is asked about the directory in
    which it would run, and only of what would be started; what it raises is raised, and nothing is started then.
    `consent` is asked about what a resume would drop.
    """
    session, plan = plan_to_resume(name, anyway=anyway, consent=consent, tell=tell)
    if agree is not None:
        agree(plan.cwd)
    provider = find_provider(session.provider)
    what = f"{full_name(session)} is not resumed"
    launches = Launches(places.state_dir())
    locks = take_locks(what, session.key, provider.capabilities, launches, tell)
    try:
        # Again, now that nobody else can start it: what was true before the wait may not be true any more.
        session, plan = plan_to_resume(full_name(session, with_home=True), anyway=anyway, consent=consent, tell=tell)
        if agree is not None:
            agree(plan.cwd)
        copies = keep_copies(session, provider, launches)
    except OSError as error:
        _release(locks)
        raise not_recorded(what, error) from error
    except BaseException:
        _release(locks)
        raise
    order = _Order(
        what=what,
        provider=provider,
        home=session.key.home,
        plan=plan,
        wanted=session.key,
        copies=copies,
        title=session.title,
        size=size,
        tab=tab,
    )
    return _open(order, launches, locks)


class _Order(Struct, frozen=True, kw_only=True):
    what: str
    provider: Provider
    home: str
    plan: Start | Resume
    arguments: tuple[str, ...] = ()
    wanted: SessionKey | None
    copies: tuple[KeptCopy, ...] = ()
    title: str | None = None
    size: Size
    tab: str | None = None


def _open(order: _Order, launches: Launches, locks: list[int]) -> Started:
    """The binding, then the terminal, then (with its program forked and waiting) who it is, then the guard."""
    bindings = Bindings(places.state_dir())
    sweep_terminals(terminals_dir())
    earlier = bindings.find(order.tab) if order.tab else None
    binding = Binding(
        tab=order.tab or new_tab_id(),
        provider=order.provider.name,
        home=order.home,
        work_dir=order.plan.cwd,
        opened_at=earlier.opened_at if earlier else time.time(),
        title=order.title,
        wanted=order.wanted,
        silence=find_silence(order.provider, order.home),
        previous=earlier.past_processes() if earlier else (),
    )

    def record(started: Started) -> None:
        holder, child = identity_fields(started.holder), identity_fields(started.child)
        bindings.write(structs.replace(binding, holder=holder, child=child))
        if order.wanted is not None:
            launch = Launch(
                key=order.wanted,
                identity=child,
                launched_at=time.time(),
                argv=order.plan.argv,
                cwd=order.plan.cwd,
                copies=order.copies,
                silence=binding.silence,
            )
            launches.write(launch)

    try:
        if earlier is None:
            bindings.write(binding)
        else:  # it is on record, with the process that tells which session it has: that stays until another runs
            dismiss_terminal(terminals_dir(), binding.tab)
        bindings.note_opened(order.plan.cwd)
        env = child_environment(os.environ, order.provider.capabilities, order.plan.env)
        started = start_terminal(
            terminals_dir(),
            (*order.plan.argv, *order.arguments),
            cwd=order.plan.cwd,
            env=terminal_environment(env, binding.tab),
            columns=order.size[0],
            rows=order.size[1],
            tab=binding.tab,
            on_forked=record,
        )
        _leave_guard(binding.tab, locks)
    except StartFailed as error:
        with suppress(OSError):  # it stays as a tab that was lost
            if earlier is not None:
                bindings.write(earlier)
            elif order.tab is None:
                bindings.forget(binding.tab)
        raise not_started(order.what, Refused(reason=Refusal.SPAWN_FAILED, message=str(error))) from error
    except OSError as error:
        raise not_recorded(order.what, error) from error
    finally:
        _release(locks)
    return started


def _leave_guard(tab: str, locks: list[int]) -> None:
    subprocess.Popen(
        [sys.executable, "-P", "-m", "corral.engine.guard", tab, *map(str, locks)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        pass_fds=locks,
        start_new_session=True,
    )


def _release(locks: list[int]) -> None:
    while locks:
        os.close(locks.pop())


def _check(provider: Provider, program: Program | None, work_dir: str) -> Refused | None:
    if not os.path.isdir(work_dir):
        return Refused(reason=Refusal.WORK_DIR_MISSING, message=f"there is no directory {work_dir}")
    if program is None:
        return Refused(
            reason=Refusal.PROVIDER_MISSING,
            message=f"{provider.capabilities.title} is not installed, or not on PATH",
            remedy=("install it, or name its program in the config: corral config path",),
        )
    if program.problem is not None:
        return Refused(reason=Refusal.PROVIDER_UNSUPPORTED, message=f"{program.path}: {program.problem}")
    return None
