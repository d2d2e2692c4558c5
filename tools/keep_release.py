"""Keeps a release for later versions to be tried against: its wheel, and a home that its own programs wrote.

    python tools/keep_release.py        as root, in the tree of the release, after `make setup`

Everything runs in namespaces of its own, as the person `dev` of the machine `devbox`, so that the files name no
machine but that one. The agents are the fixtures of the tests and the reference agent; no real home is touched.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FIXTURES = ROOT / "tests" / "providers" / "fixtures"
HOME = Path("/home/dev")
WORK = HOME / "projects" / "app"
MOST_WHEEL_BYTES = 1 << 20
WAIT_SECONDS = 60
KEPT = (
    *(".cache/corral", ".config/corral", ".local/share/corral", ".local/state/corral"),
    *("agent", ".kimi", ".kimi-code", ".qwen"),
)
PYTHON = "/usr/bin/python3"
"""Every machine has it, so that the files name no other; of the same version as the one that runs this."""


def main() -> int:
    if "--inside" in sys.argv:
        make_home(Path(sys.argv[1]))
        return 0
    version = (ROOT / "src/corral/version.py").read_text().split('"')[-2]
    place = ROOT / "tests" / "releases" / version
    place.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
        subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", folder, str(ROOT)], check=True)
        (wheel,) = Path(folder).glob("*.whl")
        if wheel.stat().st_size > MOST_WHEEL_BYTES:
            raise SystemExit(f"{wheel.name} has {wheel.stat().st_size} bytes: too many to keep")
        shutil.copy(wheel, place)
        unpacked = Path(folder) / "unpacked"
        zipfile.ZipFile(wheel).extractall(unpacked)
        made = Path(folder) / "made"
        made.mkdir()
        alone = ["unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child"]
        sources = os.pathsep.join([str(unpacked), sysconfig.get_paths()["platlib"]])
        env = {"PATH": "/usr/bin:/bin", "PYTHONPATH": sources, "LANG": "C.UTF-8"}
        subprocess.run([*alone, PYTHON, __file__, str(made), "--inside"], env=env, check=True)
        for name in ("home.tar.gz", "answers.json"):
            shutil.copy(made / name, place)
    print(f"kept in {place.relative_to(ROOT)}")
    return 0


def make_home(made: Path) -> None:
    """As the first process of the namespaces."""
    subprocess.run(["mount", "-t", "tmpfs", "none", "/home"], check=True)
    Path("/proc/sys/kernel/hostname").write_text("devbox")
    WORK.mkdir(parents=True)
    for source, target in (
        ("kimi-cli-usage", ".kimi"),
        ("kimi-code-usage", ".kimi-code"),
        ("qwen-code/home", ".qwen"),
    ):
        shutil.copytree(FIXTURES / source, HOME / target)
    os.environ["HOME"] = str(HOME)
    answers: dict[str, object] = {}
    ask("hooks", "install")
    answers["usage"] = json.loads(ask("usage", "--tz", "UTC", "--by", "session", "--json"))
    report_a_session()
    tab = keep_a_tab()
    answers["tab"] = tab
    answers["ps"] = json.loads(ask("ps", "--all", "--json"))
    (made / "answers.json").write_text(json.dumps(answers, indent=1) + "\n")
    with tarfile.open(made / "home.tar.gz", "w:gz") as archive:
        for name in KEPT:
            archive.add(HOME / name, name, filter=regular)


def ask(*words: str) -> str:
    command = [sys.executable, "-m", "corral", *words]
    done = subprocess.run(command, cwd=WORK, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    if done.returncode != 0:
        raise SystemExit(f"corral {' '.join(words)}: {done.stdout}{done.stderr}")
    return done.stdout


def report_a_session() -> None:
    """A journal, written by the hook program of this release for a process that looks like the CLI."""
    from corral.hooks.command import hook_command
    from corral.machine import places

    session = next((HOME / ".kimi" / "sessions").glob("*/*"))
    command = hook_command("kimi-cli", places.data_dir(), places.state_dir())
    agent = [sys.executable, str(ROOT / "tests/integration/hooks/fake_cli.py"), "Kimi Code", command, "one"]
    payload = {"hook_event_name": "SessionStart", "session_id": session.name, "cwd": str(WORK), "source": "resume"}
    env = {"HOME": str(HOME), "PATH": os.environ["PATH"]}
    request = {"payloads": [json.dumps(payload)], "env": env, "cwd": str(WORK), "kill_after": 0.0}
    with subprocess.Popen(agent, stdin=-1, stdout=-1, text=True) as running:
        assert running.stdin and running.stdout
        running.stdin.write(json.dumps(request) + "\n")
        running.stdin.flush()
        running.stdout.readline()
        running.kill()


def keep_a_tab() -> str:
    """A binding and what is left of a terminal, of the reference agent; it is ended."""
    from corral.demo.place import agent_program

    program = HOME / "kimi"
    program.write_text(agent_program())
    program.chmod(0o755)
    config = HOME / ".config" / "corral" / "config.toml"
    config.parent.mkdir(parents=True)
    # The reference agent takes no home that it did not make.
    agents_home = HOME / "agent"
    config.write_text(f'[programs]\nkimi-cli = "{program}"\n[homes]\nkimi-cli = ["{agents_home}"]\n')
    os.environ["KIMI_SHARE_DIR"] = str(agents_home)
    tab = ask("run", "kimi-cli", "--detach", "--yes", "--no-hooks").strip()
    del os.environ["KIMI_SHARE_DIR"]
    deadline = time.monotonic() + WAIT_SECONDS
    while (session := json.loads(ask("terminals", "--json"))["terminals"][0]["session"]) is None:
        if time.monotonic() > deadline:
            raise SystemExit("the reference agent reports no session")
        time.sleep(0.1)
    ask("kill", session["session_id"], "--yes")
    return tab


def regular(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Files and directories; sockets are not kept."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member if member.isfile() or member.isdir() else None


if __name__ == "__main__":
    sys.exit(main())
