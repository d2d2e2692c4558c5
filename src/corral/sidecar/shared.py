"""Homes that several machines share: a filesystem from elsewhere, under a hostname that many have."""

import os

_NETWORK = frozenset(
    ["nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs"]
)
_GENERIC = frozenset(
    [
        "localhost",
        "vm",
        "ubuntu",
        "debian",
        "fedora",
        "raspberrypi",
        "kali",
        "archlinux",
        "dev",
        "devcontainer",
    ]
)


def could_be_another(hostname: str, directory: str, mountinfo: str = "/proc/self/mountinfo") -> bool:
    """True when a record with our own hostname may still come from another machine."""
    name = hostname.casefold().rstrip(".")
    if name not in _GENERIC and not name.endswith((".local", ".localdomain")):
        return False
    return _is_network(directory, mountinfo)


def _is_network(directory: str, mountinfo: str) -> bool:
    try:
        device = os.stat(directory).st_dev
        with open(mountinfo, "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return False
    wanted = b"%d:%d" % (os.major(device), os.minor(device))
    for line in lines:
        # man 5 proc: id, parent, major:minor, root, mount point, options, more options, "-", type, source, …
        fields, _, rest = line.partition(b" - ")
        if fields.split(b" ")[2:3] == [wanted]:
            kind = rest.split(b" ")[0].decode("ascii", "replace")
            return kind in _NETWORK or kind.startswith("fuse.")
    return False
