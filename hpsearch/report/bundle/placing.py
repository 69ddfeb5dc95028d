"""Folders that are whole or absent: an older one stays until the new one stands."""

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from uuid import uuid4

from hpsearch.atomic import flush, flush_tree, make_folder
from hpsearch.errors import UsageError, unwritten
from hpsearch.report.bundle.files import INDEX, MARK

_SMALL_BUNDLE: Final = 2**17
"""bytes"""


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill, which takes the place of ``folder`` when the block ends well.

    What cannot be written is refused before the block begins, which may measure for hours.

    Raises:
        UsageError: if there is a file in the way, or a folder with other things than bundles.
        DiskError: if something cannot be written; what was there before stays.
    """
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        _check_place(folder)
        make_folder(folder.parent)
        temporary.mkdir()
        _check_room(temporary)
        yield temporary
        flush_tree(temporary)
        _put_in_place(temporary, folder)
        flush(folder.parent)
    except OSError as error:
        then = "export again, or choose another folder with -o"
        raise unwritten(folder, error, then) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_place(folder: Path) -> None:
    for above in (folder, *folder.parents):
        if above.is_symlink() and not above.exists():
            raise UsageError(f"{above} is a link to nothing; choose another folder with -o")
        if above.exists():
            break
    if not above.is_dir():
        raise UsageError(f"{above} is a file; choose another folder with -o")
    if above == folder and any(folder.iterdir()) and not _is_ours(folder):
        raise UsageError(f"{folder} holds other files; choose another folder with -o")
    if above == folder and not os.access(folder, os.W_OK | os.X_OK):
        # It could be renamed, but what lies in it could not be removed then.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _check_room(folder: Path) -> None:
    """Write a file as large as a small bundle, and remove it."""
    probe = folder / "probe"
    probe.write_bytes(bytes(_SMALL_BUNDLE))
    flush(probe)
    probe.unlink()


def _is_ours(folder: Path) -> bool:
    return (folder / MARK).exists() or (folder / INDEX).exists()


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename ``new`` to ``folder``; an older one is removed when the new one stands.

    A kill between two renames leaves the older one, hidden; the next export removes it.
    """
    for left in folder.parent.glob(f".{folder.name}-*-old"):
        if folder.exists():
            shutil.rmtree(left)
        else:
            left.rename(folder)
    if not folder.exists():
        new.rename(folder)
        return
    old = new.with_name(f"{new.name}-old")
    folder.rename(old)
    try:
        new.rename(folder)
    except OSError:
        old.rename(folder)
        raise
    shutil.rmtree(old)
