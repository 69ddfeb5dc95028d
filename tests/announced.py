"""A package that announces parts, as pip would install it, for the tests of one process."""

import importlib
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from hpsearch.extensions import forget_installed

Points = Mapping[str, Mapping[str, str]]  # by kind and name: module:attribute


def write_package(
    folder: Path, points: Points, sources: Mapping[str, str], *, package: str = "tried"
) -> None:
    """Write modules, and what pip notes of the package that holds them, into a folder."""
    note = folder / f"{package}-1.2.dist-info"
    note.mkdir(parents=True)
    (note / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.2\n")
    lines = [
        f"[hpsearch.{kind}]\n" + "".join(f"{name} = {value}\n" for name, value in named.items())
        for kind, named in points.items()
    ]
    (note / "entry_points.txt").write_text("\n".join(lines))
    for module, source in sources.items():
        (folder / f"{module}.py").write_text(source)


@contextmanager
def on_path(*folders: Path) -> Iterator[None]:
    """Let packages of these folders be installed while the block runs."""
    known = {*sys.modules}
    sys.path[:0] = map(str, folders)
    importlib.invalidate_caches()
    forget_installed()
    try:
        yield
    finally:
        for folder in folders:
            sys.path.remove(str(folder))
            for module in {path.stem for path in folder.glob("*.py")} - known:
                sys.modules.pop(module, None)
        forget_installed()
