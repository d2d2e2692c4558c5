"""Reports as plain objects, whichever kind of record they are made of."""

from __future__ import annotations

from corral.light_typing import cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def to_plain(value: Any) -> Any:
    """Records of the standard library and of msgspec alike, by the names of their fields."""
    names: tuple[str, ...] | None = getattr(value, "_fields", None) or getattr(value, "__struct_fields__", None)
    if names is not None:
        return {name: to_plain(getattr(value, name)) for name in names}
    if isinstance(value, dict):
        return {name: to_plain(one) for name, one in cast("dict[str, Any]", value).items()}
    return [to_plain(one) for one in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value
