"""A temporary home for each CLI: configured for the fake model server, with nothing personal in it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.contract.agents import Agents
from tests.contract.model_server import CONTEXT_TOKENS, MODEL, OTHER_MODEL, ModelServer

ALIAS, OTHER_ALIAS = "fake", "other"  # the names of the two models in the Kimis' configuration


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    """A HOME, the data root of one CLI in it, a work directory, and the environment to start the CLI with."""

    root: Path
    data: Path
    work_dir: Path
    env: Mapping[str, str] = field(repr=False)

    def another_work_dir(self, name: str) -> Path:
        """A new directory to work in, beside the first."""
        place = self.root / "work" / name
        place.mkdir(parents=True)
        return place


@contextmanager
def temporary_root() -> Iterator[Path]:
    """A directory with a short path, since Qwen binds a socket beneath it; removed at the end."""
    root = Path(os.path.realpath(tempfile.mkdtemp(prefix="corral-")))
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def make_kimi_cli_home(root: Path, agents: Agents, server: ModelServer, *, approve: bool = True) -> Home:
    """A home for kimi-cli. With `approve` every tool runs unasked."""
    data = root / ".kimi"
    data.mkdir()
    top = f'default_model = "{ALIAS}"\ndefault_yolo = {str(approve).lower()}\ntelemetry = false\n'
    (data / "config.toml").write_text(top + _kimi_models(server))
    switches = {"KIMI_CLI_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}
    return make_home(root, data, "kimi-cli", "kimi", agents, server, switches)


def make_kimi_code_home(root: Path, agents: Agents, server: ModelServer, *, approve: bool = True) -> Home:
    """A home for kimi-code. With `approve` every tool runs unasked."""
    data = root / ".kimi-code"
    data.mkdir()
    mode = "auto" if approve else "manual"
    # Without this an Enter soon after fast typing is a part of a paste (2.1.0, 2026-11).
    (data / "tui.toml").write_text("disable_paste_burst = true\n")
    top = f'default_model = "{ALIAS}"\ndefault_permission_mode = "{mode}"\ntelemetry = false\n'
    (data / "config.toml").write_text(top + _kimi_models(server))
    switches = {"KIMI_CODE_NO_AUTO_UPDATE": "1", "KIMI_DISABLE_TELEMETRY": "1"}
    return make_home(root, data, "kimi-code", "kimi", agents, server, switches)


def make_qwen_code_home(
    root: Path, agents: Agents, server: ModelServer, *, approve: bool = True, usage_statistics: bool = False
) -> Home:
    """A home for qwen-code. With `usage_statistics` it keeps its token-usage file (and tries to report)."""
    data = root / ".qwen"
    data.mkdir()
    settings: dict[str, Any] = {
        "security": {"auth": {"selectedType": "openai"}, "folderTrust": {"enabled": False}},
        "model": {"name": MODEL},
        "general": {"enableAutoUpdate": False, "showSessionRecap": False},
        "privacy": {"usageStatisticsEnabled": usage_statistics},
        "telemetry": {"enabled": False},
        "tools": {"approvalMode": "yolo" if approve else "default"},
        "ui": {"enableFollowupSuggestions": False, "hideTips": True, "theme": "Default"},
        "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
    }
    (data / "settings.json").write_text(json.dumps(settings, indent=2))
    switches = {
        "OPENAI_API_KEY": "fake",
        "OPENAI_BASE_URL": server.base_url,
        "OPENAI_MODEL": MODEL,
        "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
    }
    return make_home(root, data, "qwen-code", "qwen", agents, server, switches)


def make_claude_code_home(root: Path, agents: Agents, server: ModelServer, *, approve: bool = True) -> Home:
    """A home for claude-code: its first questions are answered, and nothing but conversations is asked of the model."""
    data = root / ".claude"
    data.mkdir()
    allowed = ["Bash", "Agent", "Task"] if approve else []
    (data / "settings.json").write_text(json.dumps({"permissions": {"defaultMode": "default", "allow": allowed}}))
    key = "sk-ant-fake-0000000000000000000000000000"
    answered = {
        "hasCompletedOnboarding": True,
        "hasSeenAutoDefaultNudge": True,
        "customApiKeyResponses": {"approved": [key[-20:]], "rejected": []},
        "projects": {str(root / "work"): {"hasTrustDialogAccepted": True}},
    }
    (root / ".claude.json").write_text(json.dumps(answered))
    switches = {
        "ANTHROPIC_API_KEY": key,
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{server.port}",
        "ANTHROPIC_MODEL": MODEL,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }
    return make_home(root, data, "claude-code", "claude", agents, server, switches)


def make_codex_home(root: Path, agents: Agents, server: ModelServer, *, approve: bool = True) -> Home:
    """A home for codex. With `approve` every tool runs unasked."""
    data = root / ".codex"
    data.mkdir()
    policy = "never" if approve else "on-request"
    top = f'model = "{MODEL}"\nmodel_provider = "test"\napproval_policy = "{policy}"\ncheck_for_update_on_startup = false\n'
    provider = f'name = "test"\nbase_url = "{server.base_url}"\nenv_key = "FAKE_KEY"\nwire_api = "responses"\n'
    trusted = f'[projects."{root / "work" / "app"}"]\ntrust_level = "trusted"\n'
    (data / "config.toml").write_text(f"{top}[model_providers.test]\n{provider}{trusted}")
    return make_home(root, data, "codex", "codex", agents, server, {"FAKE_KEY": "fake"})


def _kimi_models(server: ModelServer) -> str:
    models = "".join(
        f'[models.{alias}]\nprovider = "test"\nmodel = "{model}"\nmax_context_size = {CONTEXT_TOKENS}\n'
        for alias, model in ((ALIAS, MODEL), (OTHER_ALIAS, OTHER_MODEL))
    )
    return f'[providers.test]\ntype = "kimi"\nbase_url = "{server.base_url}"\napi_key = "fake"\n{models}'


def make_home(
    root: Path,
    data: Path,
    provider: str,
    command: str,
    agents: Agents,
    server: ModelServer,
    switches: Mapping[str, str],
) -> Home:
    """A home in which this CLI is on PATH by its command, and nothing but the model server can be reached."""
    bin_dir, temp, work_dir = root / "bin", root / "tmp", root / "work" / "app"
    for place in (bin_dir, temp, work_dir):
        place.mkdir(parents=True)
    (bin_dir / command).symlink_to(agents.programs[provider])
    # What is meant for any other host ends at our server, which notes and refuses it.
    proxy = f"http://127.0.0.1:{server.port}"
    env = {
        "HOME": str(root),
        "PATH": f"{bin_dir}:{agents.node_bin}:/usr/local/bin:/usr/bin:/bin",
        "TMPDIR": str(temp),
        "USER": "dev",
        "LOGNAME": "dev",
        "SHELL": "/bin/bash",
        "TERM": "xterm-256color",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HTTP_PROXY": proxy,
        "HTTPS_PROXY": proxy,
        "http_proxy": proxy,
        "https_proxy": proxy,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "NODE_USE_ENV_PROXY": "1",
        # Node keeps what it compiled of them: every start of kimi-code takes a sixth less of a processor's time.
        "NODE_COMPILE_CACHE": str(agents.node_bin.with_name("compile-cache")),
        **switches,
    }
    return Home(root=root, data=data, work_dir=work_dir, env=env)
