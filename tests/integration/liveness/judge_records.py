"""Judge the records on standard input where we are run: in a namespace, as another user, at another time."""

from __future__ import annotations

import os
import sys
import time

import msgspec

from corral.machine.host import read_host_facts
from corral.machine.probe import probe_claim
from corral.sessions.decide.liveness import decide_liveness
from tests.integration.liveness.machine import Answer, Question, words


def main() -> None:
    questions = msgspec.json.decode(sys.stdin.buffer.read(), type=list[Question])
    if sys.argv[1]:
        # Dropped here and not by the caller: the interpreter itself may lie where others cannot read it.
        os.setgroups([])
        os.setgid(int(sys.argv[1]))
        os.setuid(int(sys.argv[1]))
    answers: list[Answer] = []
    for question in questions:
        claim = question.claim
        if question.written_there:
            claim = msgspec.structs.replace(claim, written_at=time.time())
        verdict = decide_liveness(claim, probe_claim(claim), read_host_facts(), question.pin)
        answers.append(Answer(words(verdict), verdict.reason, verdict.identity))
    sys.stdout.buffer.write(msgspec.json.encode(answers))


if __name__ == "__main__":
    main()
