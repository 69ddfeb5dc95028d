"""The folder of a bundle: what lies in it, how it is read within bounds, how it is put there.

<bundle>/
    README.md                 how each file is loaded
    config.yaml               the complete trainer configuration
    weights.safetensors       the networks
    policy-<role>.pt2         the greedy policy, for torch alone
    policy-<role>.onnx        the same for ONNX, where it could be written
    evaluation.json           the certificate: what was measured, and how
    lineage.json              who the player descends from, where there is a population
    provenance.json           where it comes from, and the sha256 of every other file
    provenance.json.sig       who made it, where it was signed

Several bundles lie side by side in a folder with bundles.json.

A bundle may come from anywhere. Its folder must hold exactly what its provenance lists: regular
files of known names, none larger than its limit, each with the listed sha256. Every file is read
once, so what was checked is what is used; and the programs are never loaded, since torch.export
unpickles, and evaluates expressions as Python.
"""

import errno
import glob
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from hpsearch import yaml_file
from hpsearch.cluster.record_files import Folder, Place
from hpsearch.errors import CorruptError, UsageError, unwritten
from hpsearch.files import contents, flush, flush_tree, make_folder, unreadable
from hpsearch.trainers.config.players import ROLES

FORMAT: Final = 2  # of the bundles that are written, in the provenance; 1 where that names none
SORTED_POINTS: Final = 1  # the format whose policies take points that are sorted already
FORMATS: Final = (SORTED_POINTS, FORMAT)  # those that are read
INDEX: Final = "bundles.json"  # by which a folder of several is known
_ONE_OF_SEVERAL: Final = re.compile(r"\d+-trial-\d+")  # the folder of each


class BundleDir(Folder):
    """The folder of one bundle; what its files hold is said above."""

    readme = Place("README.md")
    config = Place("config.yaml")
    weights = Place("weights.safetensors")
    certificate = Place("evaluation.json")
    lineage = Place("lineage.json")
    provenance = Place("provenance.json")
    signature = Place("provenance.json.sig")

    def program(self, role: str) -> Path:
        return self.root / f"policy-{role}.pt2"

    def onnx(self, role: str) -> Path:
        return self.root / f"policy-{role}.onnx"

    def required(self, roles: Iterable[str]) -> set[str]:
        """Return the names of the files that the provenance of a bundle of these roles lists."""
        fixed = (self.readme, self.config, self.weights, self.certificate)
        return {path.name for path in (*fixed, *map(self.program, roles))}

    def optional(self, roles: Iterable[str]) -> set[str]:
        """Return the names of those that it may list as well."""
        return {path.name for path in (self.lineage, *map(self.onnx, roles))}

    def digests(self) -> dict[str, str]:
        files = sorted(path for path in self.root.iterdir() if path != self.provenance)
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


_MOST_BYTES: Final = {
    ".md": 2**20,
    ".yaml": 2**18,
    ".json": 2**23,
    ".sig": 2**16,
    ".safetensors": 2**30,
    ".pt2": 2**30,
    ".onnx": 2**30,
}
"""of a file, by the end of its name"""
_MOST_OF_LINEAGE: Final = 2**28  # a row for each interval of a line, and read only for its hash
MOST_FILES: Final = 1000  # in a folder, and bundles in an index
_DEEPEST: Final = 40  # mappings and lists within each other
_MOST_VALUES: Final = {".yaml": 5000, ".json": 2**16}
_BUILD: Final = re.compile(rb'"torch_version": "([\w.+-]{1,40})"')
"""where a program names the build of torch that wrote it"""


@dataclass(frozen=True)
class Contents:
    digests: Mapping[str, str]  # sha256, by name
    data: Mapping[str, bytes]  # what is looked into, by name
    builds: Mapping[str, str]  # of torch, by the name of the program that says it was written by it
    bundle_format: int  # one of `FORMATS`, which says what its programs take


def read_contents(bundle: BundleDir, provenance: bytes) -> Contents:
    """Return what lies in the folder of a bundle, whose file of provenance has this content.

    Raises CorruptError if anything else lies there than is listed, or something else is listed than
    a bundle has, or it is of a format that is not known here; DiskError if a file cannot be read.
    """
    origin = plain_json(provenance, bundle.provenance)
    listed, bundle_format = _listed(bundle, origin), _format(bundle, origin)
    _check_names(bundle, listed)
    data, builds = {}, {}
    for name, digest in listed.items():
        content = read_file(bundle.root / name)
        if hashlib.sha256(content).hexdigest() != digest:
            path = bundle.root / name
            raise CorruptError(f"{path} is not as it was written; export the bundle again")
        if name in (bundle.config.name, bundle.certificate.name, bundle.weights.name):
            data[name] = content
        if build := _BUILD.search(content):
            builds[name] = build[1].decode("ascii", "replace")
    return Contents(listed, data, builds, bundle_format)


def _format(bundle: BundleDir, origin: Mapping[str, Any]) -> int:
    named = origin.get("format", SORTED_POINTS)
    if type(named) is not int or named not in FORMATS:
        known = " and ".join(map(str, FORMATS))
        raise CorruptError(
            f"{bundle.root} is a bundle of format {shown(str(named))}, and this version of "
            f"hpsearch reads {known}; evaluate it with the version that wrote it"
        )
    return named


def _listed(bundle: BundleDir, origin: Any) -> dict[str, str]:
    listed = origin.get("files") if isinstance(origin, dict) else None
    if not isinstance(listed, dict) or not all(isinstance(sha, str) for sha in listed.values()):
        raise CorruptError(
            f"{bundle.root} has no {bundle.provenance.name} that lists its files; export it again"
        )
    if not listed:
        raise CorruptError(
            f"{bundle.provenance} lists no file, so it certifies nothing; export the bundle again"
        )
    return listed


def _check_names(bundle: BundleDir, listed: Mapping[str, str]) -> None:
    known = bundle.required(ROLES) | bundle.optional(ROLES)
    if unknown := sorted(listed.keys() - known):
        raise CorruptError(
            f"{bundle.provenance} lists {unknown[0]!r}, but a bundle has only "
            f"{', '.join(sorted(known))}; export it again"
        )
    names = set(_names(bundle.root))
    if missing := sorted((bundle.required(()) | listed.keys()) - names):
        raise CorruptError(f"{bundle.root / missing[0]} is missing; export the bundle again")
    own = {bundle.provenance.name, bundle.signature.name}
    if extra := sorted(names - listed.keys() - own):
        raise CorruptError(
            f"{bundle.root} holds {extra[0]!r}, which {bundle.provenance.name} does not list; "
            "remove it, or export the bundle again"
        )


def _names(folder: Path) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for count, entry in enumerate(entries):
                if count == MOST_FILES:
                    raise CorruptError(f"{folder} holds too many files for a bundle; export again")
                yield entry.name
    except OSError as error:
        raise unreadable(folder, error) from error


def read_file(path: Path) -> bytes:
    """Return the content of a file of a bundle, regular and no larger than such a file is."""
    is_lineage = path == BundleDir(path.parent).lineage
    most = _MOST_OF_LINEAGE if is_lineage else _MOST_BYTES[path.suffix]
    try:
        # Looked at before it is opened, since opening a device may do something; when it is opened,
        # a link or a pipe that has taken its place is neither followed nor waited for.
        if stat.S_ISREG(path.lstat().st_mode):
            with suppress(CorruptError):  # it is no such file, or too large
                return contents(path, most, follows_links=False)
    except FileNotFoundError as error:
        raise CorruptError(f"{path} is missing; export the bundle again") from error
    except OSError as error:
        raise unreadable(path, error) from error
    raise CorruptError(
        f"{path} is no regular file of at most {most:,} bytes; export the bundle again"
    )


def plain_json(content: bytes, path: Path) -> Any:
    """Return what JSON holds that has no key twice, not too many values and no too deep ones."""
    try:
        data = json.loads(content.decode("utf-8"), object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        # Python's own words for the latter speak of Python.
        why = "nested too deeply" if isinstance(error, RecursionError) else error
        raise CorruptError(f"{path} is no JSON ({why}); export the bundle again") from error
    _check_plain(data, path)
    return data


def plain_yaml(content: bytes, path: Path) -> Any:
    """Return what YAML holds that has not too many values and no too deep ones."""
    try:
        data = yaml_file.parse(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        why = f"{path} is no text ({error.reason}); export the bundle again"
        raise CorruptError(why) from error
    _check_plain(data, path)
    return data


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        raise ValueError("a key stands twice")
    return data


def _check_plain(data: object, path: Path) -> None:
    """Refuse what would take long, or break what looks at it later.

    YAML's aliases count where they stand, so a few lines that stand for billions are refused.
    """
    left, waiting = _MOST_VALUES[path.suffix], [(data, 0)]
    while waiting:
        value, depth = waiting.pop()
        parts = [*value, *value.values()] if isinstance(value, dict) else value
        if isinstance(parts, list):
            left -= len(parts)
            if left < 0 or depth == _DEEPEST:
                raise CorruptError(
                    f"{path} holds more values, or deeper ones, than any bundle's; export it again"
                )
            waiting += [(part, depth + 1) for part in parts]
        elif not _is_plain(value):
            raise CorruptError(
                f"{path} holds a {type(value).__name__} that no bundle has; export it again"
            )


def _is_plain(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, int):  # true and false too
        return -(2**63) <= value < 2**64
    return value is None or isinstance(value, float)


def shown(text: str) -> str:
    """Return a text from a bundle as it may be printed: on one line, short, nothing hidden."""
    cut = text if len(text) <= 300 else f"{text[:300]}..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a new folder to fill, which takes the place of ``folder`` when the block ends well.

    What cannot be written is refused before the block begins, which may measure for hours. Raises
    UsageError if there is a file in the way, or a folder with other things than bundles; DiskError
    if something cannot be written; what was there before stays.
    """
    folder = folder.resolve() if folder.is_dir() else folder  # a link goes on leading there
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        _check_place(folder)
        make_folder(folder.parent)
        temporary.mkdir()
        probe = temporary / "probe"
        probe.write_bytes(bytes(2**17))  # as many as a small bundle has
        flush(probe)
        probe.unlink()
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
    if above == folder and (others := _others(folder)):
        raise UsageError(
            f"{folder} holds {min(others)!r}, and only a folder with nothing but whole bundles is "
            "replaced; move that elsewhere, or choose another folder with -o"
        )
    if above == folder and not os.access(folder, os.W_OK | os.X_OK):
        # It could be renamed, but what lies in it could not be removed then.
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _others(folder: Path) -> set[str]:
    """Return the names in a folder that are of no bundle; all of them, where none is whole."""
    bundle, names = BundleDir(folder), set(os.listdir(folder))
    needed = bundle.required(()) | {bundle.provenance.name}
    known = needed | bundle.required(ROLES) | bundle.optional(ROLES) | {bundle.signature.name}
    files = {name for name in known & names if (folder / name).is_file()}
    if needed <= files:
        return names - files
    several = {name for name in names if _ONE_OF_SEVERAL.fullmatch(name)}
    whole = {name for name in several if (folder / name).is_dir() and not _others(folder / name)}
    return names - whole - {INDEX} if whole and INDEX in names else names


def _put_in_place(new: Path, folder: Path) -> None:
    """Rename ``new`` to ``folder``; an older one is removed then, or by the next export."""
    # The whole pattern: an older one of a folder NAME-MORE is not ours.
    for left in folder.parent.glob(f".{glob.escape(folder.name)}-{'[0-9a-f]' * 32}-old"):
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
