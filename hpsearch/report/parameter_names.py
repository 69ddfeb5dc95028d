"""Short names of parameters, for columns and lines."""

from collections import Counter
from collections.abc import Iterable


def short_names(paths: Iterable[str]) -> dict[str, str]:
    """Return a name for each dotted path: its last part, after its first where others share that.

    Where that is not enough either, the whole path: no two names are alike.
    """
    every = list(dict.fromkeys(paths))
    found = {path: path.rpartition(".")[2] for path in every}
    longer = {path: f"{path.partition('.')[0]} {found[path]}" for path in every if "." in path}
    found = _told_apart(found, longer)
    return _told_apart(found, {path: path for path in every})


def _told_apart(names: dict[str, str], longer: dict[str, str]) -> dict[str, str]:
    counts = Counter(names.values())
    return {
        path: name if counts[name] == 1 else longer.get(path, name) for path, name in names.items()
    }
