"""What `corral ps` says on a machine without any session: what it looked for, and commands to try that work here."""

from __future__ import annotations

from corral.cli.own_command import own_command
from corral.cli.screen import tilde
from corral.engine.catalogue import all_providers
from corral.engine.hook_settings import lack_hooks
from corral.model.session import Survey


def say_nothing_found(survey: Survey) -> list[str]:
    looked = ", ".join(provider.capabilities.title for provider in all_providers())
    homes = ", ".join(tilde(home.path) for home in survey.homes)
    corral = own_command()
    tries = [
        (f"{corral} demo", "everything in a throw-away home, with an agent made for trying"),
        (f"{corral} doctor", "what is installed, and where corral looks"),
    ]
    if survey.homes and lack_hooks():
        tries.append((f"{corral} hooks install", "so that running agents tell which session they serve"))
    width = max(len(command) for command, _ in tries)
    return [
        "No agent sessions on this machine.",
        f"  looked for: {looked}",
        f"  in:         {homes or 'their homes: none of them exists yet'}",
        "Try:",
        *(f"  {command:<{width}}  {why}" for command, why in tries),
    ]
