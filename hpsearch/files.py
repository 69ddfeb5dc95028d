"""Files: written whole or not at all, and read within bounds.

Files below runs/ are data, and no such file ends a reader; only this module opens them. Only
regular files are read, without waiting for a writer; each is read up to a bound; JSON is nested to
a bound, and its texts hold neither NUL, which databases refuse, nor halves of surrogate pairs,
which cannot be encoded: U+FFFD stands in their place.
"""

import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from io import BufferedReader, BufferedWriter
from pathlib import Path
from resource import RUSAGE_THREAD, getrusage
from secrets import token_hex
from typing import Any

from hpsearch.errors import CorruptError, DiskError, unwritten


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``; raises as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes, *, is_flushed: bool = True) -> None:
    """Replace the file at ``path`` by ``data``; once flushed, it survives a loss of power.

    Raises DiskError if that is not possible, such as on a full disk; the old file stays.
    """
    write_files(path.parent, {path.name: data}, is_flushed=is_flushed)


def write_files(folder: Path, files: Mapping[str, bytes], *, is_flushed: bool = True) -> None:
    """Replace files of a folder, by their names, one after the other; as `write_bytes`."""
    # Texts, as a driver writes thousands of files in a round: paths would take half of the time.
    root = os.fspath(folder)
    path = root
    try:
        for name, data in files.items():
            path = f"{root}/{name}"
            _replace(path, f"{root}/.{name}-{token_hex(16)}", data, is_flushed=is_flushed)
        if is_flushed:
            path = root
            flush(root)
            with suppress(PermissionError):  # a folder that others keep need not be readable
                # A process that made ours may have died before this.
                flush(os.path.dirname(root) or ".")
    except OSError as error:
        raise unwritten(Path(path), error) from error


def _replace(path: str, temporary: str, data: bytes, *, is_flushed: bool) -> None:
    is_placed = False
    try:
        with _created(temporary) as file:
            file.write(data)
            if is_flushed:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
        is_placed = True
    finally:
        if not is_placed:
            with suppress(OSError):  # where nothing can be written, nothing can be removed either
                os.unlink(temporary)


def _created(path: str) -> BufferedWriter:
    """Return a new file, open for writing, in a folder that is made if it is missing."""
    try:
        return open(path, "xb")
    except FileNotFoundError:
        make_folder(Path(path).parent)
        return open(path, "xb")


FIRST = 16  # pieces of work that are done one after another, and show whether they wait
WRITERS = 16  # threads that wait for the disk together


def do_together(works: Sequence[Callable[[], None]]) -> None:
    """Do pieces of work, many at a time if they wait for the disk; raises what the first raised.

    Those after it may then be left undone. A file that survives a loss of power takes milliseconds,
    in which the disk could take others. On a disk that lets nothing wait, threads take turns at the
    interpreter, and twice as long.
    """
    first, left, before = works[:FIRST], works[FIRST:], _num_waits()
    for work in first:
        work()
    if _num_waits() - before < len(first):
        for work in left:
            work()
    elif left:
        with ThreadPoolExecutor(WRITERS) as pool:
            for done in [pool.submit(work) for work in left]:
                done.result()


def _num_waits() -> int:
    """Return how often this thread has waited: for a disk, or for other threads."""
    return getrusage(RUSAGE_THREAD).ru_nvcsw


def write_json(path: Path, data: Any, *, is_flushed: bool = True) -> None:
    write_bytes(path, (json.dumps(data, indent=1) + "\n").encode(), is_flushed=is_flushed)


def replace_json(path: Path, data: Any) -> None:
    """Write JSON without waiting for the disk; raises as `write_bytes` does.

    A reader sees the old file or the new one; a loss of power may leave either, or a damaged one.
    """
    write_json(path, data, is_flushed=False)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that they survive a loss of power."""
    missing, above = [], folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush(made.parent)


def flush(path: Path | str) -> None:
    """Make sure that a file, or the names in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Make sure that a folder survives a loss of power, with all that lies in it."""
    for path in (*folder.rglob("*"), folder):
        flush(path)


MAX_FILE = 64 * 2**20  # bytes of a file that is read whole
MAX_RECORD = 16 * 2**20  # bytes of a file that holds one record
MAX_LINE = 4 * 2**20  # bytes of a line; longer ones are passed over
MAX_LINES = 2**30  # bytes of a file that is read line by line
MAX_TAIL = 64 * 2**10  # bytes of the end of a log that are looked at
MAX_DEPTH = 64  # to which lists and mappings may be nested; a configuration needs a dozen

CANNOT_BE_KEPT = re.compile("[\x00\ud800-\udfff]")
"""characters that neither a database nor UTF-8 takes"""
_ESCAPED = re.compile(r"\\u(?:0000|[dD][89a-fA-F])")
"""how such a character gets into JSON that was decoded without a fault"""


def open_file(
    path: Path, limit: int | None = None, *, follows_links: bool = True
) -> BufferedReader:
    """Return a regular file, open for reading.

    Raises CorruptError if something else is there, such as a folder or a pipe, or more than
    ``limit`` bytes; OSError if there is no file, or it cannot be opened now.
    """
    try:
        # A pipe would keep its reader waiting for a writer, a terminal would become ours.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        file = os.open(path, flags if follows_links else flags | os.O_NOFOLLOW)
    except OSError as error:
        if is_for_good(error) and not isinstance(error, FileNotFoundError):
            raise _no_file(path) from error
        raise
    status = os.fstat(file)
    is_regular = stat.S_ISREG(status.st_mode)
    if not is_regular or (limit is not None and status.st_size > limit):
        os.close(file)
        raise _too_large(path, limit or 0) if is_regular else _no_file(path)
    return os.fdopen(file, "rb")


def contents(path: Path, limit: int = MAX_FILE, *, follows_links: bool = True) -> bytes:
    """Return what a file holds; raises as `open_file` does."""
    with open_file(path, limit, follows_links=follows_links) as file:
        data = file.read(limit + 1)
    if len(data) > limit:  # it has grown meanwhile
        raise _too_large(path, limit)
    return data


def read_json(path: Path, limit: int = MAX_FILE) -> Any:
    """Return what the JSON file at ``path`` holds, None if there is no file.

    Raises CorruptError if it is no file of JSON within the bounds, DiskError if it cannot be read.
    """
    try:
        return parse_json(contents(path, limit))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise CorruptError(
            f"{path} is no JSON ({error}); it was not written by hpsearch"
        ) from error


def parse_json(data: bytes | str) -> Any:
    """Return what JSON stands for; ValueError if it is none, not in UTF-8, or nested too deeply."""
    text = data if isinstance(data, str) else data.decode("utf-8")
    try:
        value = json.loads(text)
    except RecursionError as error:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from error
    if text.count("[") + text.count("{") > MAX_DEPTH:
        _check_depth(value)
    return _cleaned(value) if _ESCAPED.search(text) else value


def read_lines(path: Path) -> Iterator[bytes]:
    """Yield the lines of a file without their ends; what follows the last end is no line.

    The file is not held in memory; a line of more than MAX_LINE bytes is passed over. Raises
    FileNotFoundError; CorruptError if it is no regular file, or of more than MAX_LINES bytes;
    DiskError if it cannot be read.
    """
    try:
        with open_file(path, MAX_LINES) as file:
            is_whole = True
            while part := file.readline(MAX_LINE):
                ends = part.endswith(b"\n")
                if ends and is_whole:
                    yield part[:-1]
                is_whole = ends
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unreadable(path, error) from error


MAX_STEP = 2**53  # no trial makes more steps; a file that names a later one is damaged


def row_of_step(line: bytes) -> dict[str, Any] | None:
    """Return a row that says of which step it is, None for any other line."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    step = row.get("step") if isinstance(row, dict) else None
    return row if type(step) is int and 0 <= step <= MAX_STEP else None


def forget_after(path: Path, step: int) -> None:
    """Drop the lines of JSON of later steps than ``step``, and those that tell no step.

    Raises as `read_lines` and `write_bytes` do, but not if there is no file.
    """
    with suppress(FileNotFoundError):
        rows = ((line, row_of_step(line)) for line in read_lines(path))
        kept = [line for line, row in rows if row is not None and row["step"] <= step]
        if sum(len(line) + 1 for line in kept) != path.stat().st_size:
            write_bytes(path, b"".join(line + b"\n" for line in kept))


def last_lines(path: Path, count: int) -> list[str]:
    """Return the last lines of a log, of its last MAX_TAIL bytes; none if it cannot be read."""
    try:
        with open_file(path) as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - MAX_TAIL))
            tail = file.read(MAX_TAIL)
    except (OSError, CorruptError):
        return []
    return tail.decode("utf-8", errors="replace").splitlines()[-count:]


def is_for_good(error: OSError) -> bool:
    """Return whether an error says that there is no file, not that it cannot be read now."""
    absent = errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENXIO, errno.ENAMETOOLONG
    return error.errno in absent


def unreadable(path: Path, error: OSError) -> DiskError:
    return DiskError(
        f"{path} cannot be read ({error.strerror}); check the file system and the permissions"
    )


def _no_file(path: Path) -> CorruptError:
    return CorruptError(
        f"{path} is no regular file; hpsearch did not make it, so remove it or restore the file "
        "from a copy"
    )


def _too_large(path: Path, limit: int) -> CorruptError:
    return CorruptError(
        f"{path} holds more than {limit:,} bytes, which nothing of its kind does; hpsearch did not "
        "write it, so remove it or restore it from a copy"
    )


def _check_depth(value: Any) -> None:
    """Raise ValueError if a value is nested too deeply for code that recurses into it.

    An empty list or mapping, into which nothing recurses, counts as little as a number.
    """
    layer, depth = [value], 0
    while nodes := [node for node in layer if node and isinstance(node, dict | list)]:
        depth += 1
        if depth > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} deep")
        held = (node.values() if isinstance(node, dict) else node for node in nodes)
        layer = [item for items in held for item in items]


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return CANNOT_BE_KEPT.sub("\ufffd", value)
    if isinstance(value, list):
        return [_cleaned(item) for item in value]
    if isinstance(value, dict):
        return {_cleaned(key): _cleaned(item) for key, item in value.items()}
    return value


def shipped(name: str) -> Path:
    """Return where a file lies that the repository holds as ``name``, such as studies/x.yaml.

    A wheel holds copies in ``hpsearch/files/``, which pyproject.toml lists.
    """
    package = Path(__file__).parent
    copy = package / "files" / name
    return copy if copy.exists() else package.parent / name
