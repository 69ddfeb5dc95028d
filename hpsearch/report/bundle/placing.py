"""Folders that are whole or absent: an older one stays until the new one stands."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from hpsearch.atomic import flush, flush_tree
from hpsearch.errors import DiskError, UsageError
from hpsearch.report.bundle.files import INDEX, MARK


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a folder to write, which takes the place of ``folder`` when the block ends well.

    Raises:
        UsageError: if there is a file, or a folder with other things than bundles.
        DiskError: if something cannot be written; what was there before stays.
    """
    if folder.is_file():
        raise UsageError(f"{folder} is a file; choose another folder with -o")
    if folder.exists() and any(folder.iterdir()) and not _is_ours(folder):
        raise UsageError(f"{folder} holds other files; choose another folder with -o")
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        yield temporary
        flush_tree(temporary)
        _put_in_place(temporary, folder)
        flush(folder.parent)
    except OSError as error:
        raise DiskError(
            f"{folder} cannot be written ({error.strerror or error}); free some space, then "
            "export again"
        ) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


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
