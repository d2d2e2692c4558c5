"""The installer beside another writer of the same configuration: neither loses what is its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from corral.hooks import install as installer
from corral.hooks.edit.jsonc import parse
from corral.hooks.install import install, uninstall
from corral.model.hook_install import Outcome

COUNT_UP = """
import os, random, sys, time
path, stop, sign = sys.argv[1:]
written = 0
while not os.path.exists(stop):
    with open(path) as file:
        text = file.read()
    old, new = (f"count{sign}{number}" for number in (written, written + 1))
    assert old in text, f"update {written} was lost"
    with open(path + ".other", "w") as file:
        file.write(text.replace(old, new))
    os.replace(path + ".other", path)
    written += 1
    time.sleep(random.uniform(0, 0.04 + written / 500))  # ever longer: also a slow machine finds a pause
print(written)
"""


@pytest.mark.parametrize("provider", ["kimi-cli", "qwen-code"])
def test_a_competing_writer_loses_nothing(make, tmp_path, provider):
    """It reads, changes and renames, as others do, and may drop our entries. We may never drop its own."""
    sign, data = ('": ', b'{"count": 0}') if provider == "qwen-code" else (" = ", b"count = 0\n")
    setting = make(provider, data)
    stop = tmp_path / "stop"
    words = [sys.executable, "-c", COUNT_UP, setting.config_path, str(stop), sign]
    other = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def count() -> int:
        text = Path(setting.config_path).read_text()
        return parse(text).plain()["count"] if provider == "qwen-code" else tomllib.loads(text)["count"]

    outcomes: Counter[Outcome] = Counter()
    give_up = time.monotonic() + 60
    while (count() <= 20 or outcomes[Outcome.INSTALLED] < 2) and other.poll() is None and time.monotonic() < give_up:
        outcomes.update(act(setting).outcome for act in (install, uninstall))
    stop.touch()
    written, fault = other.communicate(timeout=60)
    assert not fault
    assert count() == int(written) > 20
    assert outcomes[Outcome.INSTALLED] > 1
    assert {name for name in os.listdir(setting.home) if "corral" in name} == set()


def test_a_config_that_never_holds_still_is_given_up(make, monkeypatch):
    setting = make("kimi-cli", b"a = 1\n")
    real = installer.config_file._is_unchanged

    def restless(before, path=None):
        Path(setting.config_path).write_text("a = 2\n")
        return real(before, path)

    monkeypatch.setattr(installer.config_file, "_is_unchanged", restless)
    done = install(setting)
    assert done.outcome is Outcome.REFUSED and "keeps changing" in done.message
    assert Path(setting.config_path).read_text() == "a = 2\n"
