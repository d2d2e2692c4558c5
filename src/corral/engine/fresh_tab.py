"""A fresh session in a new tab, once everything that needs a person's word has it."""

from __future__ import annotations

import os
from collections.abc import Sequence

from corral.engine.hook_settings import find_silence
from corral.engine.launch import NotStarted
from corral.engine.opening import Fresh, Size, open_fresh, plan_fresh
from corral.engine.restore import NotOpened, ask_first, not_opened
from corral.errors import CorralError
from corral.model.restore import Command


def start_fresh_tab(
    provider: str, work_dir: str, arguments: Sequence[str], *, size: Size, trust: bool, live_only: bool
) -> str:
    """The new tab's id. Raises NotOpened: ask_trust and hooks_missing are questions, the others are refusals."""
    if not os.path.isabs(work_dir) or "\0" in work_dir:
        raise NotOpened("work_dir_missing", f"{work_dir!r} is not an absolute path")
    work_dir = os.path.realpath(work_dir)
    try:
        fresh = plan_fresh(provider, work_dir, with_arguments=bool(arguments))
        if not trust:
            ask_first(work_dir)
        if not live_only:
            _require_hooks(fresh)
        return open_fresh(fresh, arguments, size=size, tell=lambda text: None).tab
    except NotStarted as error:
        raise not_opened(error.refused) from error
    except CorralError as error:
        raise NotOpened("provider_missing", error.message, (error.hint,) if error.hint else ()) from error


def _require_hooks(fresh: Fresh) -> None:
    """Without them such a CLI never says which session it has, so that the tab could not be restored."""
    if find_silence(fresh.provider, fresh.home.path) is not None:
        title = fresh.provider.capabilities.title
        raise NotOpened(
            "hooks_missing",
            f"{title} tells which session it has only through hooks: without them this tab is live-only",
            (Command(f"corral hooks install {fresh.provider.name}"),),
        )
