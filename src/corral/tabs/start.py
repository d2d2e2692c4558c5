"""Starting an agent, whoever asks: one process per session, and on record before its program begins.

A fresh session or a resumed one, in a terminal of ours or in place of this process: all go the same way.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, TypeVar

from msgspec import Struct, structs

from corral.errors import CorralError
from corral.hooks import find_silence
from corral.machine import places
from corral.machine.procfs import has_ended
from corral.model.key import Home, SessionKey
from corral.model.process import ProcessIdentity
from corral.model.refusal import RefusedError, refuse
from corral.model.restore import Attach, Command, Loss, Program, Refusal, Refused, Resume, Start, Wait
from corral.model.selection import Selection
from corral.model.session import Session
from corral.model.tab import Agree
from corral.providers.asking import Asker
from corral.providers.contract import Capabilities, Environment, Provider
from corral.providers.registry import find_provider
from corral.providers.settings import read_settings
from corral.sessions.cache import Cache
from corral.sessions.decide.attribution import YOUNG_S
from corral.sessions.decide.restore import refuse_live, refuse_starting
from corral.sessions.gather import environment
from corral.sessions.naming import find_by_key, find_session, full_name
from corral.sessions.survey import take_survey
from corral.sidecar.processes import own_identity
from corral.state.bindings import Binding, Bindings, identity_fields
from corral.state.launches import KeptCopy, Launch, Launches
from corral.tabs.guard import fork_guard, spawn_guard
from corral.terminals.client import dismiss_terminal
from corral.terminals.directory import sweep_terminals, terminals_dir
from corral.terminals.start import Started, StartFailed, new_tab_id, start_terminal, terminal_environment

_T = TypeVar("_T")
Size = tuple[int, int]
Report = Callable[[str], None]
_TURN_WAIT_SECONDS = 120.0
_END_WAIT_SECONDS, _STEP_SECONDS = 10.0, 0.1
_SURVEY_STEP_SECONDS = 0.5


class Order(Struct, frozen=True, kw_only=True):
    """What is to be started: a fresh session or a resumed one."""

    provider: Provider
    home: str
    plan: Start | Resume
    arguments: tuple[str, ...] = ()
    wanted: SessionKey | None
    copies: tuple[KeptCopy, ...] = ()
    title: str | None = None


class Starting:
    """The one start that a session may have, from its lock to its program: `with Starting(…) as starting`.

    Entering raises RefusedError while another corral starts the same session.
    """

    def __init__(
        self, key: SessionKey, what: str, *, anyway: bool = False, agree: Agree, report: Report = lambda _: None
    ) -> None:
        """`what` says what does not happen when it is refused: "… is not resumed"; `report` gets what is waited for."""
        self._key = key
        self._what = what
        self._anyway = anyway
        self._agree = agree
        self._report = report
        self._provider = find_provider(key.provider)
        self._launches = Launches(places.state_dir())
        self._locks: list[int] = []
        """One start per session, and one per home where the CLI needs that: the descriptors that hold the locks."""

    def __enter__(self) -> Starting:
        try:
            lease = self._launches.lock_session(self._key)
            deadline = time.monotonic() + _END_WAIT_SECONDS
            while lease is None and self._has_last_start_ended() and time.monotonic() < deadline:
                time.sleep(_STEP_SECONDS)
                lease = self._launches.lock_session(self._key)
        except OSError as error:
            raise self._not_recorded(error) from error
        if lease is None:
            raise self.refuse(
                Refused(
                    reason=Refusal.ALREADY_LIVE,
                    message="another corral has started it, and that start has not been confirmed yet",
                    remedy=("corral ps shows which process it is",),
                )
            )
        self._locks.append(lease)
        return self

    def __exit__(self, *raised: object) -> None:
        while self._locks:
            os.close(self._locks.pop())

    def refuse(self, refused: Refused) -> RefusedError:
        return RefusedError(refused, self._what)

    def look(self) -> Session:
        """The session as it is now that nobody else can start it. Raises RefusedError."""
        found = find_settled(self._key, anyway=self._anyway, report=self._report)
        if isinstance(found, Refused):
            raise self.refuse(found)
        return found

    def start_in_terminal(self, order: Order, size: Size) -> str:
        """A fresh session; returns its tab. Raises RefusedError."""
        self._take_turn()
        return self._open(order, size, None).tab

    def resume_in_terminal(self, session: Session, size: Size, tab: str | None) -> str:
        """The session as `look` found it; returns its tab. Raises RefusedError.

        `tab` is one that was lost or has ended, and is to be the same tab again.
        """
        return self._open(self._order(session, ask=True), size, tab).tab

    def resume_in_place(self, session: Session) -> NoReturn:
        """Replace this process by the agent. Returns only by raising."""
        order = self._order(session, ask=False)
        plan = order.plan
        me = own_identity()
        if me is None:
            raise CorralError("this platform does not say which process this is, so the start could not be verified")
        launch = self._launch_of(order, me, find_silence(order.provider, order.home))
        try:
            self._launches.write(launch)
            self._launches.sweep(time.time())
        except OSError as error:
            raise self._not_recorded(error) from error
        fork_guard(launch, self._launches, self._locks)
        try:
            os.chdir(plan.cwd)
            os.execve(
                plan.argv[0],
                list(plan.argv),
                _child_environment(os.environ, order.provider.capabilities, plan.env),
            )
        except OSError as error:
            message = f"{plan.argv[0]}: {error.strerror}"
            raise self.refuse(Refused(reason=Refusal.SPAWN_FAILED, message=message)) from error

    # --- the steps

    def _has_last_start_ended(self) -> bool:
        """Whether what was started on it has ended: then its guard is about to notice, and to release the lock."""
        me = own_identity()
        started = [launch.process for launch in self._launches.read_all() if launch.key == self._key]
        return bool(started) and all(
            me is not None
            and (one.boot_id, one.pid_ns) == (me.boot_id, me.pid_ns)
            and has_ended(one.pid, one.start_ticks)
            for one in started
        )

    def _order(self, session: Session, *, ask: bool) -> Order:
        """What to start; the last questions are asked, and the copies are made."""
        plan = self._decide(session, ask=ask)
        if self._take_turn():  # what was true before the wait may not be true any more
            session = self.look()
            plan = self._decide(session, ask=ask)
        try:
            copies = keep_copies(session, plan, self._launches)
        except OSError as error:
            raise self._not_recorded(error) from error
        return Order(
            provider=self._provider,
            home=session.key.home,
            plan=plan,
            wanted=session.key,
            copies=copies,
            title=session.title,
        )

    def _decide(self, session: Session, *, ask: bool) -> Resume:
        plan = decide_resume(session, self._agree)
        if isinstance(plan, Refused):
            raise self.refuse(plan)
        # Only about what would be started: nobody is asked to trust a directory, and then refused.
        if ask and (question := ask_trust(plan.cwd)) and not self._agree(question):
            raise self.refuse(question)
        return plan

    def _take_turn(self) -> bool:
        """Lock the home where the CLI needs one start at a time. Returns whether corral had to wait."""
        capabilities = self._provider.capabilities
        if not capabilities.starts_one_at_a_time:
            return False
        try:
            turn = self._launches.lock_home(self._key, 0.0)
            waits = turn is None
            if turn is None:
                self._report(f"waiting: {capabilities.title} can't be started twice at once")
                turn = self._launches.lock_home(self._key, _TURN_WAIT_SECONDS)
        except OSError as error:
            raise self._not_recorded(error) from error
        if turn is None:
            message = f"another start of {capabilities.title} did not finish in {_TURN_WAIT_SECONDS:.0f} s"
            raise self.refuse(Refused(reason=Refusal.SPAWN_FAILED, message=message))
        self._locks.append(turn)
        return waits

    def _open(self, order: Order, size: Size, tab: str | None) -> Started:
        """The binding, then the terminal, then (with its program forked and waiting) who it is, then the guard."""
        bindings = Bindings(places.state_dir())
        sweep_terminals(terminals_dir())
        earlier = bindings.find(tab) if tab else None
        binding = Binding(
            tab=tab or new_tab_id(),
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
                self._launches.write(self._launch_of(order, started.child, binding.silence))

        try:
            if earlier is None:
                bindings.write(binding)
            else:  # it is on record, with the process that says which session it has: that stays until another runs
                dismiss_terminal(terminals_dir(), binding.tab)
            bindings.note_opened(order.plan.cwd)
            env = _child_environment(os.environ, order.provider.capabilities, order.plan.env)
            started = start_terminal(
                terminals_dir(),
                (*order.plan.argv, *order.arguments),
                cwd=order.plan.cwd,
                env=terminal_environment(env, binding.tab),
                columns=size[0],
                rows=size[1],
                tab=binding.tab,
                on_forked=record,
            )
            spawn_guard(binding.tab, self._locks)
        except StartFailed as error:
            with suppress(OSError):  # it stays as a tab that was lost
                if earlier is not None:
                    bindings.write(earlier)
                elif tab is None:
                    bindings.forget(binding.tab)
            raise self.refuse(Refused(reason=Refusal.SPAWN_FAILED, message=str(error))) from error
        except OSError as error:
            raise self._not_recorded(error) from error
        return started

    def _launch_of(self, order: Order, process: ProcessIdentity, silence: str | None) -> Launch:
        return Launch(
            key=self._key,
            identity=identity_fields(process),
            launched_at=time.time(),
            argv=order.plan.argv,
            cwd=order.plan.cwd,
            copies=order.copies,
            silence=silence,
        )

    def _not_recorded(self, error: OSError) -> RefusedError:
        message = f"corral could not record the start first: {error.filename or places.state_dir()}: {error.strerror}"
        return self.refuse(Refused(reason=Refusal.SPAWN_FAILED, message=message))


# --- a fresh session


def start_tab(
    provider: str, work_dir: str, arguments: Sequence[str], *, size: Size, agree: Agree, report: Report
) -> str:
    """A fresh session in a new tab, once a person has agreed to everything that needs it. Raises RefusedError."""
    if not os.path.isabs(work_dir) or "\0" in work_dir:
        raise refuse(Refusal.WORK_DIR_MISSING, f"{work_dir!r} is not an absolute path")
    work_dir = os.path.realpath(work_dir)
    order = _plan_fresh(_require_provider(provider), work_dir, tuple(arguments))
    what = _not_started(order.provider)
    for ask in (lambda: ask_trust(work_dir), lambda: _ask_hooks(order)):
        if (question := ask()) is not None and not agree(question):
            raise RefusedError(question, what)
    key = order.wanted or SessionKey(order.provider.name, order.home, "", new_tab_id())
    with Starting(key, what, agree=agree, report=report) as starting:
        return starting.start_in_terminal(order, size)


def _require_provider(name: str) -> Provider:
    try:
        return find_provider(name)
    except CorralError as error:
        refused = Refused(reason=Refusal.NO_SUCH_PROVIDER, message=error.message, remedy=error.hints)
        raise RefusedError(refused, exit_code=error.exit_code) from error


def _plan_fresh(provider: Provider, work_dir: str, arguments: tuple[str, ...]) -> Order:
    """With arguments of the person's own, no id is chosen: they may say which session is meant."""
    cache = Cache(places.cache_dir())
    env = environment(read_settings(), cache, probing=True)
    asker = Asker()

    def ask(step: str, question: Callable[[], _T | Refused]) -> _T:
        found = asker.ask(provider, step, question, _refuse_failed)
        if isinstance(found, Refused):
            raise RefusedError(found, _not_started(provider))
        return found

    try:
        program = ask("find its program", lambda: _require_program(provider, provider.find_program(env), work_dir))
    finally:
        cache.close()
    home = ask("find its homes", lambda: _find_home(provider, env))
    session_id = str(uuid.uuid4()) if provider.capabilities.picks_id and not arguments else None
    start = ask("plan a start", lambda: provider.plan_start(work_dir, session_id, program, home))
    return Order(provider=provider, home=home.path, plan=start, arguments=arguments, wanted=start.key)


def _refuse_failed(reason: str) -> Refused:
    message = f"corral could not find out how to start it: {reason}"
    return Refused(reason=Refusal.PROVIDER_UNSUPPORTED, message=message)


def _find_home(provider: Provider, env: Environment) -> Home:
    """The home that the CLI itself would use in this environment."""
    homes = provider.homes(env)
    named = [home for home in homes if home.origin in provider.capabilities.home_variables]
    return (named or [home for home in homes if home.is_default] or list(homes))[0]


def _not_started(provider: Provider) -> str:
    return f"{provider.capabilities.title} is not started"


def _require_program(provider: Provider, program: Program | None, work_dir: str) -> Program | Refused:
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
    return program


# --- questions


def ask_trust(directory: str) -> Refused | None:
    """Where nobody has agreed to run agents: what is in a directory can make them run things."""
    if Bindings(places.state_dir()).has_opened(directory):
        return None
    return Refused(
        reason=Refusal.ASK_TRUST,
        message=f"corral has started nothing in {directory} before",
        remedy=("start it there only if you trust what is in it",),
    )


def _ask_hooks(order: Order) -> Refused | None:
    """Without them such a CLI never says which session it has, so that the tab could not be restored."""
    if find_silence(order.provider, order.home) is None:
        return None
    title = order.provider.capabilities.title
    return Refused(
        reason=Refusal.HOOKS_MISSING,
        message=f"{title} reports its session only through hooks: without them this tab is live-only",
        remedy=(Command(f"corral hooks install {order.provider.name}"),),
        hookless=order.home,
    )


# --- a resume: the session as it is now, once every agent that may be about to open it has reported


def plan_resume(name: str, *, anyway: bool, agree: Agree, settled: bool) -> tuple[Session, Resume | Refused]:
    """The session of that name, and what a resume would start, or the refusal.

    `settled`: an agent that has just started may be about to open it, and corral waits for its first report.
    """
    session = find_session(name, anyway=anyway, probing=True)
    if settled and isinstance(session.restore, Resume) and session.verdict.awaited_pids:
        found = find_settled(session.key, anyway=anyway)
        if isinstance(found, Refused):
            return session, found
        session = found
    return session, decide_resume(session, agree)


def decide_resume(session: Session, agree: Agree) -> Resume | Refused:
    """A resume is refused where one would attach or wait, and where it would drop what nobody agreed to drop."""
    match plan := session.restore:
        case Refused(loss=Loss(), agreed=Resume() as resume) if agree(plan):
            return resume
        case Attach():
            return refuse_live(plan)
        case Wait():
            return refuse_starting(plan)
        case Resume() | Refused():
            return plan


def find_settled(key: SessionKey, *, anyway: bool, report: Report = lambda _: None) -> Session | Refused:
    """The session once every agent within reach of it that is about to open one has reported, ended, or stayed silent.

    Raises RefusedError when nothing is left of it.
    """
    session = find_by_key(key, anyway=anyway, probing=True, deleted=True)
    awaited: set[int] = set()
    deadline = time.monotonic() + YOUNG_S + _SURVEY_STEP_SECONDS
    while isinstance(session.restore, Resume) and (young := set(session.verdict.awaited_pids)):
        if time.monotonic() > deadline:
            break
        if young - awaited:
            awaited |= young
            report(f"waiting: pid {_name_pids(young)} has not reported yet which session it opens")
        time.sleep(_SURVEY_STEP_SECONDS)
        session = find_by_key(key, anyway=anyway, probing=True, deleted=True)
    if anyway or not awaited or not isinstance(session.restore, Resume):
        return session
    nothing = Selection(states=frozenset())
    silent = {one.pid for one in take_survey(nothing, [find_provider(session.provider)]).no_session_yet}
    if still := awaited & silent:
        return _refuse_silent(_name_pids(still))
    return session


def _name_pids(pids: Iterable[int]) -> str:
    return ", ".join(map(str, sorted(pids)))


def _refuse_silent(pids: str) -> Refused:
    return Refused(
        reason=Refusal.MAYBE_OPEN,
        message=f"pid {pids} has just started, or is stopped, and may be about to open it",
        remedy=(
            f"look at pid {pids}: it may ask something first; then try again",
            "resume it anyway with --anyway, if you know that it is not open there",
        ),
    )


# --- in place of this process


def resume_in_place(name: str, *, anyway: bool, agree: Agree, report: Report) -> NoReturn:
    """Become the agent on the session of that name. Returns only by raising."""
    session, plan = plan_resume(name, anyway=anyway, agree=agree, settled=False)
    what = f"{full_name(session)} is not resumed"
    if isinstance(plan, Refused):
        raise RefusedError(plan, what)
    with Starting(session.key, what, anyway=anyway, agree=agree, report=report) as starting:
        starting.resume_in_place(starting.look())


# --- what every start needs


def _child_environment(
    environ: Mapping[str, str], capabilities: Capabilities, added: Mapping[str, str]
) -> dict[str, str]:
    """corral's own environment without what would mislead the child, plus the home's variable."""
    dropped = {*capabilities.poison, *capabilities.home_variables}
    return {name: value for name, value in environ.items() if name not in dropped} | dict(added)


def keep_copies(session: Session, plan: Resume, launches: Launches) -> tuple[KeptCopy, ...]:
    """Copy what this CLI may destroy, or will drop now, before it is started. Raises OSError."""
    loss = session.restore.loss if isinstance(session.restore, Refused) else None
    files = dict.fromkeys((*plan.keep, loss.path) if loss is not None else plan.keep)
    return tuple(launches.keep_copy(session.key, file) for file in files)
