"""A disk that is full from some moment on."""

import errno
import os


def fill_disk_at(monkeypatch, fatal):
    """Let the flush to disk with the number ``fatal``, from 0, fail; those before it are done."""
    flushes, fsync = [], os.fsync

    def full(descriptor):
        flushes.append(descriptor)
        if len(flushes) == fatal + 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", full)


_ALWAYS_FULL = """
import errno, os, sys

if "drive" in sys.orig_argv:
    fsync = os.fsync

    def full(descriptor):
        if os.path.exists({mark!r}):
            raise OSError(errno.ENOSPC, "No space left on device")
        fsync(descriptor)

    os.fsync = full
"""


def full_while(mark, folder):
    """Return the environment in which the disk of drivers is full while the file ``mark`` is there.

    Python runs what is written into ``folder`` before anything else.
    """
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(_ALWAYS_FULL.format(mark=str(mark)))
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
