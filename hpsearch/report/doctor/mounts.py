"""Which file system a folder is on, by the table of mounts."""

import re
from dataclasses import dataclass
from pathlib import Path

TABLE = Path("/proc/mounts")
NETWORK = (
    *("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "fuse", "ceph", "glusterfs"),
    *("afs", "panfs", "pvfs", "orangefs", "9p", "virtiofs", "wekafs", "mmfs"),
)
"""beginnings of the types that other machines may write too"""
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class FileSystem:
    """One mount."""

    folder: Path
    """where it is mounted"""
    type: str
    """as the kernel calls it"""

    @property
    def is_network(self) -> bool:
        """Return whether other machines may write it too."""
        return self.type.startswith(NETWORK)


def read_table() -> str:
    """Return the table of mounts, empty on a system that has none."""
    return TABLE.read_text() if TABLE.exists() else ""


def file_system_of(path: Path, table: str) -> FileSystem | None:
    """Return the file system of a path, which need not exist yet; None if the table knows none."""
    whole = path.resolve()
    found = None
    for line in table.splitlines():
        _, folder, kind, *_ = line.split()
        mount = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), folder))
        # Of two mounts in the same place, the later one covers the earlier.
        deeper = found is None or len(mount.parts) >= len(found.folder.parts)
        if whole.is_relative_to(mount) and deeper:
            found = FileSystem(mount, kind)
    return found
