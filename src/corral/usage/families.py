"""Whose copies a log holds, by all that is known: by the disk as it is, and by what the ledger knew before.

A log that counts otherwise than when it was read (a parent was named only later, a transcript came back) is read from
the start again, so that the ledger is the same whatever was seen first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import structs

from corral.model.descent import Descent
from corral.model.usage import UsageSource
from corral.usage.ledger import Ledger
from corral.usage.rows import storable

_decode = msgspec.json.Decoder(UsageSource).decode


_CERTAIN = 2


class Ties:
    """The sources of one provider, as they are tied to one another."""

    def __init__(self, ledger: Ledger, provider: str, listed: Iterable[UsageSource]) -> None:
        sources = list(listed)
        depends = any(one.family is not None or one.parent_id is not None or not one.session_id for one in sources)
        self._known = _read_known(ledger, provider) if depends else {}
        self._descent = Descent((*self._known.values(), *sources))
        sources = [_settle_descent(one, self._descent) for one in sources]
        self.sources = _settle_families(_settle_orphans(sources, self._known, ledger), self._known)
        """All that were listed."""
        self._families = {
            self._find_family(one)
            for now in self.sources
            if (was := self._find(now)) is not None and _counts_otherwise(was, now)
            for one in (was, now)
            if one.session_id
        }

    def find_former(self, source: UsageSource) -> UsageSource | None:
        """What the ledger took a source for, if it has to be read again: it counts otherwise, or one of its family."""
        was = self._find(source)
        if was is None:
            return None
        is_meant = bool(self._families) and source.session_id and self._find_family(source) in self._families
        return was if is_meant or _counts_otherwise(was, source) else None

    def _find_family(self, source: UsageSource) -> str:
        """Also where copies name their origin, so that events have no family: what one of them owns depends on all."""
        return source.family or (self._descent.list_before(source.session_id) or [source.session_id.lower()])[-1]

    def _find(self, source: UsageSource) -> UsageSource | None:
        return self._known.get(storable(source.path))


def _counts_otherwise(was: UsageSource, now: UsageSource) -> bool:
    same = (was.family, was.generation, was.orphans) == (now.family, now.generation, now.orphans)
    return not same or (now.family is not None and was.work_dir is None and now.work_dir is not None)


def _read_known(ledger: Ledger, provider: str) -> dict[str, UsageSource]:
    known: dict[str, UsageSource] = {}
    for path, described in ledger.descriptions().items():
        try:
            source = _decode(described)
        except msgspec.MsgspecError:
            continue  # it is listed anyhow, and taken as it is
        if source.provider == provider:
            known[path] = source
    return known


def _settle_descent(source: UsageSource, descent: Descent) -> UsageSource:
    """With the forks that lead to it, also those whose logs are gone or can't be read any more."""
    before = descent.list_before(source.session_id) if source.session_id and source.family is None else []
    return structs.replace(source, parent_id=before[0], generation=len(before)) if before else source


def _settle_orphans(
    sources: Sequence[UsageSource], known: Mapping[str, UsageSource], ledger: Ledger
) -> Iterator[UsageSource]:
    """Also with those that only forks name which are gone; without those whose own logs were read once: nothing of them
    is missing."""
    named: dict[str, set[str]] = {}
    for one in known.values():
        if one.family is None and one.parent_id is not None:
            named.setdefault(one.home, set()).add(one.parent_id)
    there = {(one.home, one.session_id.lower()) for one in sources} if named else set[tuple[str, str]]()
    for source in sources:
        if source.session_id:
            yield source
            continue
        gone = {one for one in named.get(source.home, ()) if (source.home, one) not in there}
        orphans = gone.union(source.orphans)
        read = ledger.list_read(source.provider, orphans) if orphans else ()
        yield structs.replace(source, orphans=tuple(sorted(orphans.difference(read))))


def _settle_families(listed: Iterable[UsageSource], known: Mapping[str, UsageSource]) -> list[UsageSource]:
    sources = list(listed)
    there = {source.session_id for source in sources}
    derived = _derive_parents(known.values())
    kept = [
        _keep_certain(source, known.get(storable(source.path)) or derived.get(source.session_id), there)
        for source in sources
    ]
    firm = {one.session_id: one.family for one in known.values() if one.certainty == _CERTAIN and one.family}
    firm |= {
        now.session_id: now.family for now, seen in zip(kept, sources, strict=True) if now is not seen and now.family
    }
    firm |= {one.session_id: one.family for one in kept if one.certainty == _CERTAIN and one.family}
    return [_follow_names(now, firm) if now is seen else now for now, seen in zip(kept, sources, strict=True)]


def _derive_parents(known: Iterable[UsageSource]) -> dict[str, UsageSource]:
    """What is known of sessions by forks of theirs whose family was known to its first one."""
    found: dict[str, UsageSource] = {}
    for one in known:
        if one.certainty == _CERTAIN and one.family:
            before = one.lineage if one.family in one.lineage else (*one.lineage, one.family)
            for place, name in enumerate(one.lineage):
                rest = before[place + 1 :]
                parent_id = rest[0] if rest else None
                lineage = one.lineage[place + 1 :]
                found[name] = structs.replace(one, lineage=lineage, parent_id=parent_id, generation=len(rest))
    return found


def _keep_certain(source: UsageSource, was: UsageSource | None, there: Collection[str]) -> UsageSource:
    """What was known of a family before its sessions were deleted is worth more than what is left to see: a stranger's
    log may begin just as theirs did."""
    if source.family is None or was is None or was.family is None:
        return source
    adds_nothing = was.lineage[: len(source.lineage)] == source.lineage
    is_cut_off = adds_nothing and len(source.lineage) < len(was.lineage)
    was_seen = was.certainty == _CERTAIN and adds_nothing and was.family not in there
    if source.certainty >= was.certainty and not is_cut_off and not was_seen:
        return source
    return structs.replace(
        source,
        family=was.family,
        lineage=was.lineage,
        certainty=was.certainty,
        parent_id=was.parent_id,
        generation=was.generation,
    )


def _follow_names(source: UsageSource, firm: Mapping[str, str]) -> UsageSource:
    """The family of a session that the disk does not lead to its first one, by those that are named on the way."""
    if source.family is None or source.certainty == _CERTAIN:
        return source
    names = (source.session_id, *source.lineage, source.family)
    return structs.replace(source, family=next((firm[name] for name in names if name in firm), source.family))
