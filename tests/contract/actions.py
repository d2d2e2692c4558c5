"""What makes a CLI ask the model for something else than a plain turn, each with a wait for its end."""

from __future__ import annotations

from tests.contract.model_calls import Call, Kind
from tests.contract.tui import ESCAPE, TURN_SECONDS, Tui


def delegate(agent: Tui, text: str) -> Call:
    """Has a sub-agent do something; done when it has ended, and the turn that dealt with what it said."""
    first = agent.prompt_no_wait(f"AGENT:{text}")
    sub = _wait_done(agent, Kind.SUBAGENT, first.number)
    last = agent.wait_call(
        lambda call: call.number > sub.number and call.kind is Kind.TURN and call.done and bool(call.answer),
        TURN_SECONDS,
    )
    agent.wait_idle(last)
    return last


def ask_aside(agent: Tui, text: str) -> Call:
    """Asks a side question, and closes the box with the answer."""
    before = len(agent.server.requests)
    agent.type_line(f"/btw {text}")
    call = _wait_done(agent, Kind.SIDE, before)
    agent.terminal.wait_screen(call.answer, TURN_SECONDS)
    agent.press_until(ESCAPE, lambda screen: call.answer not in screen, "the box closed")
    return call


def compact(agent: Tui) -> Call:
    """Has the conversation compacted; done when that is on disk."""
    before, ends = len(agent.server.requests), _count_compactions(agent)
    since = agent.terminal.mark()
    agent.type_line(agent.compact_command)
    call = _wait_done(agent, Kind.COMPACTION, before)
    agent.wait_until(lambda: _count_compactions(agent) > ends, "the end of the compaction", TURN_SECONDS)
    agent.wait_printed(agent.compacted, since, TURN_SECONDS)
    return call


def stop_compaction(agent: Tui) -> Call:
    """Begins a compaction, and ends it by Escape before its answer is there."""
    before = len(agent.server.requests)
    agent.server.slow_kinds.add(Kind.COMPACTION)
    agent.type_line(agent.compact_command)
    call = agent.wait_call(lambda call: call.number > before and call.kind is Kind.COMPACTION, TURN_SECONDS)
    agent.hang_up(call, ESCAPE)
    agent.server.slow_kinds.discard(Kind.COMPACTION)
    assert call.killed
    return call


def interrupt(agent: Tui, text: str, key: str) -> Call:
    """Sends a prompt, and ends its turn by a key while the answer comes in."""
    call = agent.prompt_no_wait(f"SLOW600 {text}")
    agent.terminal.wait_screen(f"SLOWLY {call.number}" if agent.answering == "SLOWLY" else agent.answering)
    agent.hang_up(call, key)
    assert call.killed
    if key == ESCAPE and agent.gives_prompt_back:
        agent.clear_input()
    return call


def begin_slow_turn(agent: Tui, text: str) -> Call:
    """Sends a prompt that is not answered; done when the disk says that the model was asked."""
    call = agent.prompt_no_wait(f"SLOW600 {text}")
    agent.wait_until(lambda: agent.is_written(call.prompt, agent.request_mark), "the request on disk", TURN_SECONDS)
    return call


def begin_slow_delegation(agent: Tui, text: str) -> Call:
    """Has a sub-agent ask for something that is not answered; done when nothing else is under way."""
    agent.server.slow_kinds.add(Kind.SUBAGENT)
    first = agent.prompt_no_wait(f"AGENT:{text}")
    call = agent.wait_call(lambda call: call.number > first.number and call.kind is Kind.SUBAGENT, TURN_SECONDS)
    if agent.agents_run_beside:
        agent.wait_answer(first)
    return call


def _wait_done(agent: Tui, kind: Kind, after: int) -> Call:
    return agent.wait_call(lambda call: call.number > after and call.kind is kind and call.done, TURN_SECONDS)


def _count_compactions(agent: Tui) -> int:
    return sum(log.read_text(errors="replace").count(agent.compaction_end) for log in agent.logs())
