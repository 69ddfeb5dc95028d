"""Checkpoints that other studies need, to begin or to compare with: a study must keep them.

A study that needs some writes a file into the folder of their study. It counts while the folder of
the study that wrote it exists.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from hpsearch.cluster.records import Pin
from hpsearch.cluster.study_dir import StudyDir


def pin(owner: StudyDir, heir: StudyDir, checkpoints: Iterable[Path]) -> None:
    """Note that ``heir`` needs checkpoints of ``owner``; DiskError if that cannot be written."""
    places = sorted(str(path.relative_to(owner.root)) for path in checkpoints)
    owner.pin(heir.key).write(Pin(str(heir.root), tuple(places)))


def pin_founders(heir: StudyDir, founders: Iterable[Path]) -> None:
    """Note that ``heir`` needs checkpoints, in whichever study each lies, if in any."""
    by_owner: dict[Path, list[Path]] = {}
    for path in founders:
        whole = path.resolve()
        owner = next((folder for folder in whole.parents if StudyDir(folder).spec.exists()), None)
        if owner is not None:
            by_owner.setdefault(owner, []).append(whole)
    for root, checkpoints in by_owner.items():
        pin(StudyDir(root), heir, checkpoints)


def pinned(owner: StudyDir) -> Mapping[str, frozenset[Path]]:
    """Return the checkpoints that others need, by study; CorruptError if a file is damaged."""
    checkpoints: dict[str, frozenset[Path]] = {}
    for file in owner.pins:
        pins = file.read()
        if pins is not None and os.path.isdir(pins.study):
            places = frozenset(owner.checkpoint(place) for place in pins.checkpoints)
            name = Path(pins.study).name
            checkpoints[name] = checkpoints.get(name, frozenset()) | places
    return checkpoints
