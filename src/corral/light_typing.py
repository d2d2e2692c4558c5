"""`corral.sidecar.light_typing` without the rest of that package: a warm report must not pay for what it never uses."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple, Protocol, cast
else:
    import os
    from importlib.machinery import SourceFileLoader

    _path = os.path.join(os.path.dirname(__file__), "sidecar", "light_typing.py")
    _module = type(os)("corral.sidecar.light_typing")
    SourceFileLoader(_module.__name__, _path).exec_module(_module)
    NamedTuple, Protocol, cast = _module.NamedTuple, _module.Protocol, _module.cast

__all__ = ["NamedTuple", "Protocol", "cast"]
