"""Codex CLI (`@openai/codex`): the list of decisions."""

from __future__ import annotations

from corral.model.process import ProcessMode
from corral.providers.codex.processes import CLI, HOME, NAME, find_reach, recognise
from corral.providers.contract import Capabilities, Evidence, Programs, Provider, Transcript, Usage

# Each part is imported when it is first needed: most commands need few of them. pyright follows it there.


def _sessions():
    from corral.providers.codex import sessions

    return sessions


def _restore():
    from corral.providers.codex import restore

    return restore


def _claims():
    from corral.providers.codex import claims

    return claims


def _usage():
    from corral.providers.codex import usage

    return usage


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Codex CLI",
        program=CLI.commands[0],
        picks_id=False,
        identified_by=("lock",),
        restore="resume",
        proven_versions=("0.166.0",),
        home_variables=(HOME.variable,),
        silent_s=60.0,
        needs_hooks=False,
        # What the shells of its tools are given.
        poison=("CODEX_THREAD_ID", "CODEX_SESSION_ID", "CODEX_TOOL_CALL_ID"),
        # The lock comes before any message, but seconds after the input line (0.166.0, 2026-11).
        evidence=(Evidence(modes=(ProcessMode.INTERACTIVE, ProcessMode.HEADLESS, ProcessMode.SERVER), within_s=60.0),),
    ),
    programs=Programs(commands=CLI.commands, product=CLI.package, says_before_version="codex-cli "),
    homes=HOME.list,
    list_sessions=lambda home, known: _sessions().list_sessions(home, known),
    list_claims=lambda home, table: _claims().list_claims(home, table),
    recognise=recognise,
    find_reach=find_reach,
    transcript=Transcript(read_guard=lambda record: _restore().read_guard(record)),
    plan_resume=lambda record, program, home: _restore().plan_resume(record, program, home),
    plan_start=lambda work_dir, session_id, program, home: _restore().plan_start(work_dir, session_id, program, home),
    usage=Usage(
        list_sources=lambda home, visits: _usage().list_usage_sources(home, visits),
        read=lambda source, since, fd: _usage().read_usage(source, since, fd),
        dated_by_file=True,
        # Billed, and on disk without a trace.
        unrecorded_kinds=(
            "titles that Codex has made for new threads",
            "the request under way when a turn was stopped or killed after a tool had run",
            "the last turn of a killed process, until the thread goes on",
            "attempts that failed and were repeated",
            "the first request of a fork, by versions that wrote running totals only",
        ),
    ),
)
