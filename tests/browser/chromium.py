"""The distribution's Chromium, installed when it is missing: `python -m tests.browser.chromium`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

INSTALL_SECONDS = 900
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
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        print("error: the browser tests need Chromium: install it, or name one in CORRAL_CHROMIUM", file=sys.stderr)
        return 1
    print("chromium: installing", flush=True)
    env = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    for words in (
        ["update", "-qq"],
        ["install", "-y", "-qq", "--no-install-recommends", "chromium", "fonts-dejavu-core"],
    ):
        done = subprocess.run(
            ["apt-get", *words], env=env, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
        if done.returncode != 0:
            print(f"error: apt-get {' '.join(words)} failed: {done.stderr[-1000:]}", file=sys.stderr)
            return 1
    return 0 if find_chromium() else 1


if __name__ == "__main__":
    sys.exit(main())
