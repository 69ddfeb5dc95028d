"""Parts of other packages: an algorithm, a reward, a tracker, found by the name it is announced by.

A package announces a part by an entry point of the group ``hpsearch.KIND``; the entry point's name
is what a study or trainer file calls the part. Nothing is imported before a file names it. Standard
library alone, because the game finds its rewards and players here.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

T = TypeVar("T")
Kind = Literal[
    "agents",
    "algorithms",
    "crossovers",
    "encoders",
    "executors",
    "hosts",
    "mutations",
    "pruners",
    "rewards",
    "samplers",
    "trackers",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
RESERVED: Final = ("learner", "panel", "program")  # which mean something else in files and tables


class ExtensionError(Exception):
    """A part that is announced cannot be had."""


@dataclass(frozen=True)
class Extension:
    """A part that an installed package announces."""

    kind: Kind
    name: str
    package: str
    version: str
    points: "tuple[EntryPoint, ...]"  # several where packages use one name

    def __str__(self) -> str:
        return f"{self.what} ({self.package} {self.version})"

    @property
    def what(self) -> str:
        return f"{self.kind.removesuffix('s')} {self.name}"

    def load(self) -> Any:
        """Return what the package gives.

        ExtensionError if that fails, two packages give it, or it is called what no part may be.
        """
        if self.name in RESERVED or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]*", self.name):
            raise ExtensionError(
                f"{self.what} of the package {self.package} must be called by letters, digits and "
                f"_ - ., and not {', '.join(RESERVED)}"
            )
        if len(self.points) > 1:
            places = ", ".join(sorted(point.value for point in self.points))
            raise ExtensionError(
                f"{self.what} is announced by several packages, as {places}; uninstall all but one"
            )
        try:
            return self.points[0].load()
        except Exception as error:  # whatever the code of another package raises
            raise ExtensionError(
                f"{self.what} cannot be loaded from the package {self.package} {self.version} "
                f"({type(error).__name__}: {error}); mend or reinstall that package"
            ) from error


def installed(kind: Kind) -> Mapping[str, Extension]:
    """Return the parts of a kind that packages announce, by name."""
    return _by_kind()[kind]


@cache
def _by_kind() -> dict[Kind, dict[str, Extension]]:
    # Imported here: most commands ask for no part of another package.
    from importlib.metadata import entry_points

    points = entry_points()
    return {kind: _named(kind, points.select(group=f"hpsearch.{kind}")) for kind in KINDS}


def in_unknown_groups() -> "list[EntryPoint]":
    """Return what packages announce for hpsearch in groups that there are not."""
    from importlib.metadata import entry_points

    known = {f"hpsearch.{kind}" for kind in KINDS}
    points = entry_points()
    groups = sorted(name for name in points.groups if name.startswith("hpsearch."))
    return [point for name in groups if name not in known for point in points.select(group=name)]


def forget_installed() -> None:
    """Ask again for the packages that there are, at the next question."""
    _by_kind.cache_clear()


def _named(kind: Kind, points: "Iterable[EntryPoint]") -> dict[str, Extension]:
    by_name: dict[str, list[EntryPoint]] = {}
    for point in sorted(points, key=lambda point: point.name):
        by_name.setdefault(point.name, []).append(point)
    return {name: _extension(kind, name, points) for name, points in by_name.items()}


def _extension(kind: Kind, name: str, points: "list[EntryPoint]") -> Extension:
    package = points[0].dist
    assert package is not None, "entry points of installed packages know their package"
    return Extension(kind, name, package.name, package.version, tuple(points))


def all_installed() -> list[Extension]:
    """Return the parts of all kinds."""
    return [part for kind in KINDS for part in installed(kind).values()]


def packages() -> dict[str, str]:
    """Return the versions of the packages that announce parts, by name."""
    return {part.package: part.version for part in all_installed()}


class Parts(Mapping[str, T]):
    """Parts by name: our own, then those of other packages, each imported when it is asked for."""

    def __init__(self, kind: Kind, own: Mapping[str, T]) -> None:
        self.kind: Kind = kind
        self.own = own

    def __getitem__(self, name: str) -> T:
        """Return a part; a KeyError if there is none, ExtensionError if it cannot be had."""
        if name in self.own:
            return self.own[name]
        part: T = installed(self.kind)[name].load()
        return part

    def __contains__(self, name: object) -> bool:
        return name in self.own or name in installed(self.kind)

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        yield from (name for name in installed(self.kind) if name not in self.own)

    def __len__(self) -> int:
        return sum(1 for _ in self)  # a list of them would ask for this number


@dataclass(frozen=True)
class PartName:
    """Marks a text that is one of our own names, or of those that packages announce."""

    own: tuple[str, ...]
    kinds: tuple[Kind, ...]

    def __contains__(self, name: object) -> bool:
        return name in self.own or any(name in installed(kind) for kind in self.kinds)

    def __iter__(self) -> Iterator[str]:
        yield from self.own
        for kind in self.kinds:
            yield from installed(kind)


def open_kind(option: Any) -> Kind | None:
    """Return of which kind other packages' options may stand where this class stands in a union.

    That is what an abstract class says as KIND; None of options, ours or another package's.
    """
    kind: Kind | None = vars(option).get("KIND") if isinstance(option, type) else None
    return kind
