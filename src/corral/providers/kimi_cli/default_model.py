"""The model that kimi-cli uses unless told otherwise: it records none with its requests."""

from __future__ import annotations

import os

import msgspec
from msgspec import Struct

from corral.sidecar.files import Unreadable, read_regular

_LARGEST = 4 << 20


class _Model(Struct):
    model: str | None = None


class _Config(Struct):
    default_model: str | None = None
    models: dict[str, _Model] = {}


def read_default_model(home: str) -> str | None:
    """As config.toml names it now; None when it does not, or can't be read."""
    content = read_regular(os.path.realpath(os.path.join(home, "config.toml")), _LARGEST)
    if isinstance(content, Unreadable):
        return None
    try:
        config = msgspec.toml.decode(content.data, type=_Config)
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError):
        return None
    if not config.default_model:
        return None
    named = config.models.get(config.default_model)
    return named.model if named and named.model else config.default_model
