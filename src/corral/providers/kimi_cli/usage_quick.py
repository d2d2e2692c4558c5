"""Lines as kimi-cli 1.51 writes them (2026-11), taken apart without decoding.

Only a short cut, and the cheaper the fewer lines pass it by: any other line is decoded. Inside JSON text quotes are
escaped, so that a name in quotes is a name and never something that somebody wrote.
"""

from __future__ import annotations

import re

_WORD = rb"([!#-\[\]-~]{1,200}+)"
_COUNT = rb"([0-9]{1,15}+)"
_DULL = (
    rb"(?:C(?:ontentPart|ompactionEnd)|Tool(?:Result|CallPart)|Approval(?:Request|Response)|QuestionRequest"
    rb'|Notification|Hook(?:Triggered|Resolved)|PlanDisplay)"'
)
_STATUS = (
    rb'StatusUpdate", "payload": \{[^{]*+\{"input_other": ' + _COUNT + rb', "output": ' + _COUNT + rb", "
    rb'"input_cache_read": '
    + _COUNT
    + rb', "input_cache_creation": '
    + _COUNT
    + rb'\}, "message_id": "'
    + _WORD
    + rb'"'
    rb'(?:, "plan_mode": [a-z]++)?+(?:, "mcp_status": null)?+\}\}\}\Z'
)
_CALL = (
    rb'ToolCall", "payload": \{"type": "function", "id": "' + _WORD + rb'", "function": \{"name": "' + _WORD + rb'", '
    rb'"arguments": "(?:\{\\"command\\": \\"([A-Za-z0-9_.+-]{1,64}+)(?=[ ;&|<>()]|\\"[,}]))?+'
)
_INSIDE = rb'SubagentEvent", "payload": \{(?:"[a-z_]+": (?:"[^"\\\n]*+"|null), )*+"event": \{"type": "'
LINE = re.compile(
    rb'\{(?:"timestamp": ([0-9]{10}\.[0-9]{1,7}+), "message": \{"type": "(?:'
    rb"(?P<dull>" + _DULL + rb")"
    rb'|(?P<step>StepBegin", "payload": \{"n": [0-9]++\}\}\}\Z)'
    rb"|(?P<status>" + _STATUS + rb")"
    rb"|(?P<call>" + _CALL + rb")"
    rb'|(?P<end>TurnEnd", "payload": \{\}\}\}\Z)'
    rb'|(?P<turn>TurnBegin", "payload": \{"user_input": )'
    rb"|(?P<dull_inside>" + _INSIDE + rb"(?:" + _DULL + rb'|StepBegin"|TurnBegin"|TurnEnd"))'
    rb')|(?P<head>"type": "metadata", ))'
)
"""Of calls and turns only the beginning: `is_whole` tells the rest."""
STATUS = (1, *range(LINE.groupindex["status"] + 1, LINE.groupindex["status"] + 6))
"""Groups: the time, input, output, cache read, cache creation, message id."""
CALL = (1, *range(LINE.groupindex["call"] + 1, LINE.groupindex["call"] + 4))
"""Groups: the time, the call's id, the tool's name, the program of a shell command where it is plain to see."""
CALL_END = b'"}, "extras": null}}}'
TURN_END = b"}}}"
USAGE_END = b'"message_id": '
_BEGIN = b'{"timestamp": '


def is_whole(line: re.Match[bytes], ending: bytes) -> bool:
    """Whether a line of which the beginning was matched is one record: it ends like one, and no other goes on in it."""
    data, start, end = line.string, line.pos, line.endpos
    return data.endswith(ending, start, end) and data.find(_BEGIN, start + 1, end) < 0
