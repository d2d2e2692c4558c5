"""What a holder process runs: `python -I -S` on this file. Its standard input says what to hold.

Its conversation with its starter: a row of texts in (see `Order`), `forked …` out; `g` in when the process is on
record, then `begun` or `failed …` out. If the starter is gone before `g`, nothing begins.
"""

import os
import sys


def _import_lightly() -> None:
    """corral and its sidecar without their `__init__`, which would double the memory of a holder."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name, path in (("corral", root), ("corral.sidecar", os.path.join(root, "sidecar"))):
        package = type(sys)(name)
        package.__path__ = [path]
        sys.modules[name] = package


if __name__ == "__main__":
    _import_lightly()

from corral.terminals.hold import hold  # noqa: E402

if __name__ == "__main__":
    hold()
