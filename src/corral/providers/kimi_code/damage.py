"""What kimi-code would drop from a session's log at its next resume, found by the rules of its own reader."""

from __future__ import annotations

from corral.model.record import SessionRecord
from corral.model.restore import Loss
from corral.providers.kimi_code.json_lines import is_json
from corral.providers.kimi_code.restore import transcript_path
from corral.sidecar.files import Unreadable
from corral.system.transcripts import open_transcript

_PROMPT = b'"turn.prompt"'
_BOM = b"\xef\xbb\xbf"


def read_loss(record: SessionRecord) -> Loss | None:
    """What is readable behind the first line of the main agent's log that is not JSON. Reads the log whole.

    kimi 2.1 reads this log line by line when it resumes. At the first whole line that is not JSON it stops, keeps
    what is before, and drops the rest for good; a wire.jsonl.bak is left only if there is none yet. Seen to make it
    stop: a cut line, blanks, NUL bytes, two records on one line, NaN. Seen to be passed: an empty line, JSON that
    is no object, bytes that are no UTF-8 in a text. A torn last line without its end goes alone. The log of a
    sub-agent is not touched by a resume (2026-11).
    """
    return find_loss(transcript_path(record))


def find_loss(path: str) -> Loss | None:
    """The same of a log at this path."""
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return None
    damaged: int | None = None
    lines = prompts = 0
    with transcript:
        for line in transcript.forward(transcript.size):
            data = (line.data.removeprefix(_BOM) if line.offset == 0 else line.data).removesuffix(b"\r")
            if not data:
                continue
            if damaged is None:
                damaged = line.offset if line.ended and not is_json(data) else None
            elif is_json(data):
                lines += 1
                prompts += _PROMPT in data
    if damaged is None or not lines:
        return None
    return Loss(path=path, line=_number_of_line(path, damaged), lines=lines, prompts=prompts)


def _number_of_line(path: str, offset: int) -> int:
    """Counted from 1, empty ones too, as an editor does."""
    number = 1
    with open(path, "rb") as file:
        while offset and (part := file.read(min(offset, 1 << 20))):
            offset -= len(part)
            number += part.count(b"\n")
    return number
