"""What a CLI would drop for good when it resumes: all behind the first line of its log that it can't read."""

from __future__ import annotations

from collections.abc import Callable

from corral.model.restore import Loss
from corral.providers.kit.transcripts import open_transcript
from corral.sidecar.files import Unreadable

_BOM = b"\xef\xbb\xbf"


def find_loss(path: str, is_record: Callable[[bytes], bool], prompt: str) -> Loss | None:
    """The readable lines, and among them the prompts, behind the first that is not; None if there are none.

    Empty lines count as readable, and so does a last line without its end. Reads the log whole.
    """
    transcript = open_transcript(path)
    if isinstance(transcript, Unreadable):
        return None
    mark = f'"{prompt}"'.encode()
    damaged: int | None = None
    lines = prompts = 0
    with transcript:
        for line in transcript.forward(transcript.size):
            data = (line.data.removeprefix(_BOM) if line.offset == 0 else line.data).removesuffix(b"\r")
            if not data:
                continue
            if damaged is None:
                damaged = line.offset if line.ended and not is_record(data) else None
            elif is_record(data):
                lines += 1
                prompts += mark in data
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
