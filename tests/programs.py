"""Programs of the distribution that tests need, installed when they are missing: `python -m tests.programs NAME …`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence

INSTALL_SECONDS = 900


def install(missing: Sequence[str]) -> str | None:
    """Debian's packages of these names; why that was not possible, or None."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return f"the tests need {', '.join(missing)}: install them"
    print(f"{', '.join(missing)}: installing", flush=True)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *missing]):
        done = subprocess.run(
            ["apt-get", *words], env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode != 0:
            return f"apt-get {' '.join(words)} failed: {done.stderr[-1000:]}"
    return None


def main(names: Sequence[str]) -> int:
    """Each name is a command and the package that has it."""
    missing = [name for name in names if shutil.which(name) is None]
    problem = install(missing) if missing else None
    if problem is not None:
        print(f"error: {problem}", file=sys.stderr)
    return 1 if problem is not None else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
