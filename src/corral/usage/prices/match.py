"""Which entry of a price table a model's name means."""

from __future__ import annotations

import re
from collections.abc import Sequence

from corral.model.prices import ListedModel, Match, Vendor

_COMPACT_DATE = re.compile(r"-(20\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])(?=-|:|$)")


def find_listed(vendors: Sequence[Vendor], name: str) -> tuple[Vendor, ListedModel] | None:
    """The vendor and the model; None if nobody lists it.

    A bare name belongs to the first vendor that claims and lists it. `vendor/model` is looked up with that vendor; a
    reseller (`reseller/vendor/model`) has prices of its own, which the table does not know.
    """
    name = name.strip().lower()
    for vendor in vendors:
        claimed = vendor.match is not None and matches(vendor.match, name)
        if claimed and (listed := _find_model(vendor, name)) is not None:
            return vendor, listed
    before, slash, bare = name.partition("/")
    if not slash or not bare:
        return None
    for vendor in vendors:
        if before in vendor.prefixes and (listed := _find_model(vendor, bare)) is not None:
            return vendor, listed
    return None


def matches(match: Match, name: str) -> bool:
    """Whether a name, in lower case, is meant."""
    return (
        name in match.equals
        or name.startswith(match.prefixes)
        or name.endswith(match.suffixes)
        or any(part in name for part in match.contains)
        or any(re.search(pattern, name) for pattern in match.patterns)
        or any(all(matches(each, name) for each in group) for group in match.together)
    )


def _find_model(vendor: Vendor, name: str) -> ListedModel | None:
    """By the name as it is; failing that, with a date such as -20251211 written -2025-12-11."""
    for spelling in (name, _COMPACT_DATE.sub(r"-\1-\2-\3", name)):
        for listed in vendor.models:
            if matches(listed.match, spelling):
                return listed
    return None
