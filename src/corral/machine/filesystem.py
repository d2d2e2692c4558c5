"""Whether a file lies on a filesystem that other machines may share."""

from __future__ import annotations

import os

_NETWORK_TYPES = (
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "pvfs2", "smb3", "smbfs", "vboxsf", "virtiofs"}
    | {"fuse.ceph", "fuse.ceph-fuse", "fuse.davfs", "fuse.glusterfs", "fuse.juicefs", "fuse.rclone"}
    | {"fuse.s3fs", "fuse.sshfs", "fuse.vmhgfs-fuse"}
)


class _Mounts:
    """The mount table, read when first asked and again when a device turns up that it did not have."""

    def __init__(self) -> None:
        self._is_network: dict[int, bool] = {}

    def is_network(self, device: int) -> bool:
        if device not in self._is_network:
            self._is_network.update(parse_mountinfo(_read_mountinfo()))
            self._is_network.setdefault(device, False)  # a subvolume, or no table: nothing says network
        return self._is_network[device]


_mounts = _Mounts()


def is_network_device(device: int) -> bool:
    """For the `st_dev` of a file that was just read."""
    return _mounts.is_network(device)


def is_on_network(path: str) -> bool:
    """False also when the path can't be looked at: then nothing was read from it either."""
    try:
        return is_network_device(os.stat(path).st_dev)
    except (OSError, ValueError):
        return False


def parse_mountinfo(text: str) -> dict[int, bool]:
    """Device number → is it a network filesystem. Lines of another shape are passed over."""
    found: dict[int, bool] = {}
    for line in text.splitlines():
        mount, _, source = line.partition(" - ")
        fields, kind = mount.split(), source.partition(" ")[0]
        major, _, minor = fields[2].partition(":") if len(fields) > 2 else ("", "", "")
        if kind and major.isdecimal() and minor.isdecimal():
            found[os.makedev(int(major), int(minor))] = kind in _NETWORK_TYPES
    return found


def _read_mountinfo() -> str:
    try:
        with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return ""
