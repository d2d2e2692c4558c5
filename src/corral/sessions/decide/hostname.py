"""Whether two host names can mean the same machine."""

from __future__ import annotations

from enum import Enum

# Names that installers give to every machine: two machines that share a home may both be called so.
_GENERIC = {
    "archlinux",
    "centos",
    "computer",
    "debian",
    "fedora",
    "host",
    "kali",
    "laptop",
    "linux",
    "localhost",
} | {"macbook", "nixos", "pop-os", "raspberrypi", "server", "ubuntu", "user", "vm", "workstation", "wsl"}
_GENERIC_DOMAINS = (".local", ".localdomain")


class HostMatch(Enum):
    """How a record's host name relates to ours."""

    SAME = "same"
    SHORT = "short"
    """One name has a domain, the other has none."""
    DOMAIN = "domain"
    """The same first label in two domains."""
    OTHER = "other"


def compare_hosts(theirs: str | None, ours: str) -> HostMatch:
    """A record that names no host is taken to be of this one. Case and a final dot mean nothing."""
    if not theirs:
        return HostMatch.SAME
    their_label, _, their_domain = _plain(theirs).partition(".")
    our_label, _, our_domain = _plain(ours).partition(".")
    if their_label != our_label:
        return HostMatch.OTHER
    if their_domain == our_domain:
        return HostMatch.SAME
    return HostMatch.DOMAIN if their_domain and our_domain else HostMatch.SHORT


def is_generic(hostname: str | None) -> bool:
    """True for a name that many machines have, and for none."""
    name = _plain(hostname or "")
    return name.partition(".")[0] in _GENERIC or name == "" or name.endswith(_GENERIC_DOMAINS)


def _plain(name: str) -> str:
    return name.casefold().removesuffix(".")
