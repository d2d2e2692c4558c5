"""Lines as kimi-code 2.1 writes them (2026-11), taken apart without decoding.

Only a short cut, and the cheaper the fewer lines pass it by: any other line is decoded. Inside JSON text quotes are
escaped, so that a name in quotes is a name and never something that somebody wrote.
"""

from __future__ import annotations

import re

_WORD = rb"([!#-\[\]-~]{1,200}+)"
_COUNT = rb"([0-9]{1,15}+)"
_REST = rb'(?:,"(?!time")[A-Za-z]++":(?:"[^"\\]*+"|[^,"{}\[\]]++))*+'
_TIME = rb',"time":([0-9]{13})\}\Z'
_AGENT = rb'","agentId":"' + _WORD + rb'"'
_DULL = (
    rb"(?:context\.(?:append_message|undo|undone)|token_counting\.[a-z_]++|llm\.tools_snapshot"
    rb"|profile\.bind|prompt\.[a-z_]++|subagent\.[a-z_]++|interaction\.[a-z_]++|permission\.[a-z_]++)"
)
_LOOP = rb'context\.append_loop_event","agentId":"[^"\\]*+","event":\{"type":"'
LINE = re.compile(
    rb"\{(?:"
    rb'"type":"(?:' + _LOOP + rb'(?:(?P<dull_event>(?:content\.part|tool\.result|step\.begin|step\.end)")'
    rb'|(?P<call>tool\.call","uuid":"' + _WORD + rb'","turnId":"[^"\\]*+","step":[0-9]++,"stepUuid":"[^"\\]*+",'
    rb'"toolCallId":"[^"\\]*+","name":"' + _WORD + rb'","args":\{'
    rb'(?:"command":"([A-Za-z0-9_.+-]{1,64}+)(?=[ ;&|<>()"]))?+))'
    rb"|(?P<usage>usage\.record" + _AGENT + rb',"model":"' + _WORD + rb'","usage":\{"inputOther":' + _COUNT + rb","
    rb'"output":' + _COUNT + rb',"inputCacheRead":' + _COUNT + rb',"inputCacheCreation":' + _COUNT + rb"\},"
    rb'"usageScope":"(turn|session)"' + _TIME + rb")"
    rb"|(?P<request>llm\.request" + _AGENT + rb',"kind":"[^"\\]*+","provider":"[^"\\]*+","model":"' + _WORD + rb'",'
    rb'"modelAlias":"' + _WORD + rb'"' + _REST + _TIME + rb")"
    rb"|(?P<ended>turn\.ended" + _AGENT + _REST + _TIME + rb")"
    rb"|(?P<dull>" + _DULL + rb'"))'
    rb'|(?P<dull_message>"message":\{"message":\{"role":")'
    rb")"
)
"""Of calls only the beginning: `find_end` tells the rest."""
USAGE = tuple(range(LINE.groupindex["usage"] + 1, LINE.groupindex["usage"] + 9))
"""Groups: the agent, the model, input, output, cache read, cache creation, the scope, the time."""
REQUEST = tuple(range(LINE.groupindex["request"] + 2, LINE.groupindex["request"] + 5))
"""Groups: the model, its alias, the time."""
CALL = tuple(range(LINE.groupindex["call"] + 1, LINE.groupindex["call"] + 4))
"""Groups: the call's id, the tool's name, the program of a shell command where it is plain to see."""
USAGE_END = b'"usageScope":'
_OTHERS = (b'"agentId":', b'{"message":')
_TIME_END = re.compile(_TIME)
_TIME_BYTES = 22


def find_end(line: re.Match[bytes]) -> bytes | None:
    """The time at the end of a line of which the beginning was matched; None if another record goes on in it."""
    data, end = line.string, line.endpos
    found = _TIME_END.match(data, end - _TIME_BYTES, end)
    if found is None or any(data.find(other, line.end(), end) >= 0 for other in _OTHERS):
        return None
    return found[1]
