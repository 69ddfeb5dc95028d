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
