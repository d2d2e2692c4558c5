"""The distribution's Chromium, installed when it is missing: `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil
import sys

from tests.programs import install

FLAGS = (
    "--no-sandbox",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
)
PLAIN = ("--disable-gpu", "--disable-3d-apis")
"""The terminal is drawn as text, which a test can read."""
WEBGL = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader")


def find_chromium() -> str | None:
    """$CORRAL_CHROMIUM, else the distribution's."""
    return os.environ.get("CORRAL_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def main() -> int:
    if find_chromium():
        return 0
    problem = install(["chromium", "fonts-dejavu-core"])
    if problem is not None:
        print(f"error: the browser tests need Chromium (or one that CORRAL_CHROMIUM names): {problem}", file=sys.stderr)
    return 0 if problem is None and find_chromium() else 1


if __name__ == "__main__":
    sys.exit(main())
