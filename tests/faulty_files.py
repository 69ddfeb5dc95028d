"""A file system with faults, laid over a folder of the real one, in virtual time.

The real files are what every process sees at once. Beside them stands what a loss of power would
leave: of a file the bytes that were flushed, of a folder the names that were there when the folder
was flushed. `FaultyFiles.crash` keeps that, and of the rest what it draws: a name in its old or its
new state, a file cut off or with zeros at its end. POSIX permits it all, in any order.

Calls fail at random, as on a disk that is full or a server that does not answer. Each client has
the attribute cache of NFS: what it saw of a path, it may go on seeing for a minute; what it wrote
itself, it sees at once. Time is the simulation's, and the file system's clock need not be right.

Not simulated: links, permissions, renamed folders, files that stay open for long. SQLite's files
lie elsewhere and are left to SQLite.
"""

import builtins
import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from stat import S_ISDIR
from typing import IO, Any

import pytest

CACHE_SECONDS = 60.0
"""for which an attribute cache of NFS may go on telling what was true"""
WRITE_ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE)
READ_ERRORS = (errno.EIO, errno.ESTALE)


@dataclass(frozen=True)
class FileFaults:
    """What goes wrong; shares of the calls, and seconds."""

    write_errors: float = 0.0
    """writes, flushes, renames, removals and new folders that fail"""
    read_errors: float = 0.0
    """files that cannot be opened now"""
    cached: float = 0.0
    """looks at a path whose answer the client goes on giving"""
    lies: float = 0.0
    """flushes that are said to be done and are not"""
    ahead: float = 0.0
    """seconds by which the file system's clock is ahead of the simulation's"""


@dataclass
class Inode:
    """A file, whatever its names."""

    durable: bytes = b""
    """what was flushed"""
    last: bytes = b""
    """what was written, as far as it has no name any more"""


FOLDER = Inode()
"""stands for every folder"""
Names = dict[str, Inode]


class FaultyFiles:
    """The faults of all files below a folder.

    Attributes:
        client: the machine that makes the calls that follow.
        strike: called before everything that is written; it may raise, as a kill does.
        counts: how often each fault happened.
    """

    def __init__(
        self, root: Path, faults: FileFaults, random: Random, clock: Callable[[], float]
    ) -> None:
        """Take what lies below ``root`` as durable."""
        self.client = "driver"
        self.strike: Callable[[], None] = lambda: None
        self.counts = dict.fromkeys(("error", "unreadable", "cached", "lie", "crash"), 0)
        self._root = root.absolute()
        self._faults = faults
        self._random = random
        self._clock = clock
        self._durable: dict[Path, Names] = {}
        self._inodes: dict[int, Inode] = {}
        self._seen: dict[tuple[str, str, Path], tuple[float, Any]] = {}
        """until when a client goes on giving an answer: by client, question and path"""
        self._real = _Real()
        self._adopt(self._root)

    @contextmanager
    def mounted(self) -> Iterator[None]:
        """Let all calls of this process go through the faults."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("stat", "listdir", "scandir", "utime", "open"):
                patch.setattr(os, name, getattr(self, f"_{name}"))
            for name in ("replace", "rename", "unlink", "mkdir", "fsync"):
                patch.setattr(os, name, getattr(self, f"_{name}"))
            patch.setattr(os, "remove", self._unlink)
            patch.setattr(io, "open", self._open_file)
            patch.setattr(builtins, "open", self._open_file)
            yield

    def crash(self) -> None:
        """Lose power: what was not durable is lost, kept, or torn."""
        self.counts["crash"] += 1
        self._seen.clear()
        with self._unmounted():
            self._settle(self._root)

    # What is durable.

    def _adopt(self, folder: Path) -> None:
        """Take what lies there already as durable."""
        self._durable[folder] = self._names(folder)
        for name, inode in self._durable[folder].items():
            if inode is FOLDER:
                self._adopt(folder / name)
            else:
                inode.durable = (folder / name).read_bytes()

    def _settle(self, folder: Path) -> None:
        """Let every name of a folder come to rest, in its old state or its new one."""
        live, durable = self._names(folder), self._durable.get(folder, {})
        for name in sorted(live.keys() | durable.keys()):
            path = folder / name
            old, new = durable.get(name), live.get(name)
            kept = old if old is new else self._random.choice((old, new))
            data = None if kept is None or kept is FOLDER else self._after_crash(path, kept, new)
            if kept is not new or data is not None:
                _remove(path, self._real)
            if kept is FOLDER:
                path.mkdir(exist_ok=True)
                self._settle(path)
            elif kept is not None:
                self._restore(path, kept, data)
        self._durable[folder] = self._names(folder)

    def _after_crash(self, path: Path, kept: Inode, new: Inode | None) -> bytes | None:
        """Return what a file holds afterwards, None if it stays as it is."""
        data = path.read_bytes() if kept is new else kept.last
        if data == kept.durable:
            return None if kept is new else data
        common = len(kept.durable) if data.startswith(kept.durable) else 0
        end = self.draw(common, len(data))
        zeros = bytes(len(data) - end) if self._random.random() < 0.3 else b""
        return data[:end] + zeros

    def _restore(self, path: Path, inode: Inode, data: bytes | None) -> None:
        if data is not None:
            path.write_bytes(data)
            self._touch(path)
        inode.durable = path.read_bytes()
        self._inodes[path.stat().st_ino] = inode

    def _names(self, folder: Path) -> Names:
        """Return what now lies in a folder."""
        names: Names = {}
        with self._real.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    names[entry.name] = FOLDER
                else:
                    names[entry.name] = self._inodes.setdefault(entry.inode(), Inode())
        return names

    def _fsync(self, descriptor: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if not self._is_ours(path):
            self._real.fsync(descriptor)
            return
        self._may_fail(path)
        if self._happens(self._faults.lies, "lie"):
            return
        if path.is_dir():
            self._durable[path] = self._names(path)
        elif (inode := self._inodes.get(os.fstat(descriptor).st_ino)) is not None:
            with self._real.open_file(path, "rb") as file:
                inode.durable = file.read()

    # What is changed.

    def _replace(self, source: Any, target: Any, **where: Any) -> None:
        paths = [self._ours(path) for path in (source, target)]
        if paths[0] is None or paths[1] is None or where:
            self._real.replace(source, target, **where)
            return
        self._may_fail(paths[1])
        self._leave_name(paths[1])
        self._real.replace(source, target)
        self._changed(*paths)

    _rename = _replace

    def _unlink(self, path: Any, **where: Any) -> None:
        own = self._ours(path)
        if own is None or where:
            self._real.unlink(path, **where)
            return
        self._may_fail(own)
        self._leave_name(own)
        self._real.unlink(path)
        self._changed(own)

    def _mkdir(self, path: Any, mode: int = 0o777, **where: Any) -> None:
        own = self._ours(path)
        if own is not None and not where:
            self._may_fail(own)
        self._real.mkdir(path, mode, **where)
        if own is not None:
            self._durable[own] = {}
            self._changed(own)

    def _utime(self, path: Any, times: Any = None, **options: Any) -> None:
        own = self._ours(path)
        if own is not None and times is not None:
            times = tuple(time + self._faults.ahead for time in times)
        self._real.utime(path, times, **options)
        if own is not None:
            if times is None and not options:
                self._touch(own)
            self._changed(own)

    def _open_file(self, path: Any, mode: str = "r", *arguments: Any, **options: Any) -> IO[Any]:
        own = self._ours(path)
        if own is None:
            return self._real.open_file(path, mode, *arguments, **options)
        if not set(mode) & set("wax+"):
            with self._readable(own) as there:
                return self._real.open_file(there, mode, *arguments, **options)
        self._may_fail(own)
        is_new = not self._real.exists(own)
        file = self._real.open_file(path, mode, *arguments, **options)
        if is_new:
            self._inodes[os.fstat(file.fileno()).st_ino] = Inode()
        return _Written(file, self, own)  # type: ignore[return-value]

    def _open(self, path: Any, flags: int, *arguments: Any, **options: Any) -> int:
        own = self._ours(path)
        if own is None or options or self._real.is_dir(own):
            return self._real.open(path, flags, *arguments, **options)
        if not flags & (os.O_WRONLY | os.O_RDWR):
            with self._readable(own) as there:
                return self._real.open(there, flags, *arguments)
        self._may_fail(own)
        is_new = not self._real.exists(own)
        descriptor = self._real.open(path, flags, *arguments)
        if is_new:
            self._inodes[os.fstat(descriptor).st_ino] = Inode()
        self._changed(own)
        return descriptor

    def may_write(self, path: Path) -> None:
        """Fail, perhaps, in the middle of a write."""
        self._may_fail(path)

    def written(self, path: Path) -> None:
        """Note that a file was written and closed."""
        if self._real.exists(path):
            self._touch(path)
        self._changed(path)

    def _leave_name(self, path: Path) -> None:
        """Keep what a file holds that is about to lose its name."""
        if self._real.exists(path):
            inode = self._inodes.setdefault(self._real.stat(path).st_ino, Inode())
            with self._real.open_file(path, "rb") as file:
                inode.last = file.read()

    def _changed(self, *paths: Path | None) -> None:
        """Let the client see at once what it did itself."""
        for path in paths:
            for question in ("stat", "open"):
                self._seen.pop((self.client, question, path), None)  # type: ignore[arg-type]
            if path is not None:
                self._seen.pop((self.client, "list", path.parent), None)

    def _touch(self, path: Path) -> None:
        now = self._clock() + self._faults.ahead
        self._real.utime(path, (now, now))

    # What is seen.

    def _stat(self, path: Any, **options: Any) -> os.stat_result:
        own = self._ours(path)
        if own is None or options.get("dir_fd") is not None:
            return self._real.stat(path, **options)

        def look() -> os.stat_result | None:
            try:
                return self._real.stat(own)
            except FileNotFoundError:
                return None

        seen: os.stat_result | None = self._as_seen("stat", own, look)
        if seen is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(own))
        return seen

    @contextmanager
    def _readable(self, path: Path) -> Iterator[Path]:
        """Give a file that holds what the client now reads at a path."""

        def look() -> bytes | None:
            if not self._real.exists(path):
                return None
            with self._real.open_file(path, "rb") as file:
                return bytes(file.read())

        if self._real.is_dir(path):
            yield path
            return
        if self._happens(self._faults.read_errors, "unreadable"):
            raise _error(self._random.choice(READ_ERRORS), path)
        data: bytes | None = self._as_seen("open", path, look)
        until, _ = self._seen.get((self.client, "open", path), (0.0, None))
        if data is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        if until <= self._clock():
            yield path
            return
        copy = os.memfd_create(path.name)
        try:
            os.write(copy, data)
            yield Path(f"/proc/self/fd/{copy}")
        finally:
            os.close(copy)

    def _listdir(self, path: Any = ".") -> list[str]:
        own = self._ours(path)
        if own is None:
            return self._real.listdir(path)
        names: list[str] = self._as_seen("list", own, lambda: self._real.listdir(own))
        return list(names)

    def _scandir(self, path: Any = ".") -> Any:
        own = self._ours(path)
        entries = self._real.scandir(path)
        if own is None:
            return entries
        names = set(self._as_seen("list", own, lambda: self._real.listdir(own)))
        with entries:
            return _Entries([entry for entry in entries if entry.name in names])

    def _as_seen(self, question: str, path: Path, look: Callable[[], Any]) -> Any:
        """Return what a client is told, which it may be told again for a while."""
        key, now = (self.client, question, path), self._clock()
        until, told = self._seen.get(key, (now, None))
        if now < until:
            self.counts["cached"] += 1
            return told
        told = look()
        if self._faults.cached > self._random.random():
            self._seen[key] = (now + self._random.uniform(0.0, CACHE_SECONDS), told)
        return told

    # Chance.

    def _may_fail(self, path: Path) -> None:
        self.strike()
        if self._happens(self._faults.write_errors, "error"):
            raise _error(self._random.choice(WRITE_ERRORS), path)

    def draw(self, low: int, high: int) -> int:
        """Return a number from ``low`` to ``high`` by one draw; ``randint`` may take several.

        Files hold their paths, so their sizes differ from folder to folder, and what is drawn
        afterwards must not.
        """
        return low + int(self._random.random() * (high + 1 - low))

    def _happens(self, share: float, what: str) -> bool:
        happens = share > 0 and self._random.random() < share
        self.counts[what] += happens
        return happens

    def _ours(self, path: Any) -> Path | None:
        """Return the absolute path if it lies below the root, None for all others."""
        if isinstance(path, int):
            return None
        absolute = Path(os.path.abspath(os.fsdecode(path)))
        return absolute if self._is_ours(absolute) else None

    def _is_ours(self, path: Path) -> bool:
        return path == self._root or self._root in path.parents

    @contextmanager
    def _unmounted(self) -> Iterator[None]:
        """Let calls reach the real files."""
        with pytest.MonkeyPatch.context() as patch:
            for name in ("stat", "listdir", "scandir", "utime", "open", "mkdir", "unlink"):
                patch.setattr(os, name, getattr(self._real, name))
            patch.setattr(io, "open", self._real.open_file)
            patch.setattr(builtins, "open", self._real.open_file)
            yield


class _Real:
    """The calls of the real file system."""

    def __init__(self) -> None:
        self.stat, self.listdir, self.scandir, self.utime = (
            os.stat,
            os.listdir,
            os.scandir,
            os.utime,
        )
        self.replace, self.unlink, self.mkdir, self.fsync = (
            os.replace,
            os.unlink,
            os.mkdir,
            os.fsync,
        )
        self.open, self.open_file = os.open, io.open

    def exists(self, path: Path) -> bool:
        try:
            self.stat(path)
        except OSError:
            return False
        return True

    def is_dir(self, path: Path) -> bool:
        return self.exists(path) and S_ISDIR(self.stat(path).st_mode)


class _Written:
    """A file that is open for writing."""

    def __init__(self, file: IO[Any], files: FaultyFiles, path: Path) -> None:
        self._file, self._files, self._path = file, files, path

    def write(self, data: Any) -> int:
        """Write all, or a part and fail."""
        try:
            self._files.may_write(self._path)
        except BaseException:
            self._file.write(data[: self._files.draw(0, len(data))])
            raise
        return self._file.write(data)

    def close(self) -> None:
        self._file.close()
        self._files.written(self._path)

    def __enter__(self) -> "_Written":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class _Entries(list[Any]):
    """What `os.scandir` returns."""

    def __enter__(self) -> "_Entries":
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _error(number: int, path: Path) -> OSError:
    return OSError(number, os.strerror(number), str(path))


def _remove(path: Path, real: _Real) -> None:
    if real.is_dir(path):
        shutil.rmtree(path)
    elif real.exists(path):
        real.unlink(path)
