"""Claude Code (`@anthropic-ai/claude-code`): the list of decisions."""

from __future__ import annotations

from corral.model.process import ProcessMode
from corral.providers.claude_code.processes import CHILD_VARIABLES, CLI, HOME, NAME, PROVEN, recognise
from corral.providers.contract import Capabilities, Evidence, Programs, Provider, Transcript, Usage
from corral.providers.kit.programs import version_tuple

# Each part is imported when it is first needed: most commands need few of them. pyright follows it there.


def _sessions():
    from corral.providers.claude_code import sessions

    return sessions


def _claims():
    from corral.providers.claude_code import claims

    return claims


def _restore():
    from corral.providers.claude_code import restore

    return restore


def _usage():
    from corral.providers.claude_code import usage

    return usage


def _find_problem(version: str) -> str | None:
    if version_tuple(version) < version_tuple(PROVEN):
        return f"of versions before {PROVEN} it is not known whether they name each process in their registry"
    return None


PROVIDER = Provider(
    name=NAME,
    capabilities=Capabilities(
        title="Claude Code",
        program=CLI.commands[0],
        picks_id=True,
        identified_by=("registry",),
        restore="resume",
        proven_versions=(PROVEN,),
        home_variables=(HOME.variable,),
        silent_s=30.0,
        needs_hooks=False,
        poison=CHILD_VARIABLES,
        # 2.1.325 (2026-11): on a terminal, with `-p` and in the background each process has its record within
        # seconds. What has none keeps no transcript either, or still asks whether the directory is to be trusted.
        evidence=(Evidence(modes=(ProcessMode.INTERACTIVE, ProcessMode.HEADLESS), within_s=30.0),),
    ),
    # 2.1.325 says "2.1.325 (Claude Code)" (2026-11)
    programs=Programs(
        commands=CLI.commands, product=CLI.package, says_after_version=" (Claude Code)", find_problem=_find_problem
    ),
    homes=HOME.list,
    list_sessions=lambda home, known: _sessions().list_sessions(home, known),
    list_claims=lambda home, table: _claims().list_claims(home, table),
    recognise=recognise,
    transcript=Transcript(read_guard=lambda record: _restore().read_guard(record)),
    plan_resume=lambda record, program, home: _restore().plan_resume(record, program, home),
    plan_start=lambda work_dir, session_id, program, home: _restore().plan_start(work_dir, session_id, program, home),
    usage=Usage(
        list_sources=lambda home, visits: _usage().list_usage_sources(home, visits),
        read=lambda source, since, fd: _usage().read_usage(source, since, fd),
        dated_by_file=True,
        # Billed, and in no transcript. Of an answer that was interrupted a trace is found, and counted.
        unrecorded_kinds=(
            "compactions",
            "side questions (/btw) and prompt suggestions",
            "names and summaries of sessions",
            "approval decisions made by a model (auto mode)",
            "web page digests and other side queries",
            "requests that were killed, or ended in an error",
        ),
    ),
)
