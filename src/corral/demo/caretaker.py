"""The process that outlives a demonstration which was killed: it waits for that without a look, and clears up.

Its standard input is a pipe whose other end only the demonstration has. The kernel closes that end when the
demonstration dies, however it dies; one that ends by itself says so first.
"""

from __future__ import annotations

import argparse
import subprocess
import sys

_ENDED = b"."


class Caretaker:
    """The demonstration's side of it."""

    def __init__(self, root: str, *, keep: bool) -> None:
        words = [sys.executable, "-P", "-m", "corral.demo.caretaker", root, *(["--keep"] if keep else [])]
        # A session of its own: what is sent to the demonstration's process group does not reach it.
        self._process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, cwd="/", start_new_session=True
        )

    def dismiss(self) -> None:
        """There is nothing left to take care of."""
        self._process.communicate(_ENDED)


def main() -> int:
    parser = argparse.ArgumentParser(prog="corral.demo.caretaker")
    parser.add_argument("root")
    parser.add_argument("--keep", action="store_true")
    args = parser.parse_args()
    if sys.stdin.buffer.read(1) == _ENDED:
        return 0
    # Only now: until then it is to cost next to nothing.
    from corral.demo.ending import end_place
    from corral.demo.place import Place
    from corral.errors import CorralError

    try:
        end_place(Place(args.root), keep=args.keep)
    except CorralError as error:
        print(f"corral: could not clean up after a demo that was killed: {error.message}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
