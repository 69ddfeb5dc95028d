"""Measuring the players of the best trial for the page; what was measured is kept for the next.

A checkpoint is known by its sha256, and the games are fixed by their seeds, so the same measurement
of it would give the same numbers again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hpsearch import __version__, atomic
from hpsearch.cluster.record_file import read_record
from hpsearch.errors import DiskError, HpsearchError
from hpsearch.plain import to_plain
from hpsearch.report.contestants import find_checkpoint, find_contestant
from hpsearch.report.examination import CPU, Plan, Report, examine
from hpsearch.report.page.ade import AdeTrees, ade_trees
from hpsearch.report.page.material import Measured
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial
from hpsearch.trainers import checkpoint

FORMAT: Final = 2
"""to be raised where what is measured, or how, changes between releases"""


@dataclass(frozen=True)
class Kept:
    """What was measured last for a page of the study, and of what."""

    format: int
    version: str
    """of hpsearch"""
    checkpoint: str
    """sha256"""
    plan: Plan
    report: Report
    trees: AdeTrees | str


def measured(
    view: StudyView, trial: Trial, plan: Plan, tell: Callable[[str], None]
) -> Measured | str:
    """Return what the players of a trial's newest checkpoint are worth, or why that is not known.

    Args:
        view: the study.
        trial: the trial.
        plan: how much is measured.
        tell: takes a sentence on what is being done.
    """
    try:
        path = find_checkpoint(view.folder.trial(trial.number).checkpoints)
        identity = checkpoint.identity(path)
        kept = _read(view)
        if kept is not None and _key(kept) == (FORMAT, __version__, identity, plan):
            tell(f"trial {trial.number} was measured before; its games are not played again")
            return Measured(kept.report, kept.trees)
        tell(f"measuring trial {trial.number} in {plan.num_games:,} games an opponent")
        contestant = find_contestant(path, CPU)
    except HpsearchError as error:
        return str(error)
    report = examine(contestant, plan)
    tell("drawing its blow-up trees")
    kept = Kept(FORMAT, __version__, identity, plan, report, ade_trees(contestant))
    with suppress(DiskError):  # a page of a study that may only be read is measured each time
        atomic.replace_json(view.folder.measured, to_plain(kept))
    return Measured(kept.report, kept.trees)


def _key(kept: Kept) -> tuple[int, str, str, Plan]:
    return kept.format, kept.version, kept.checkpoint, kept.plan


def _read(view: StudyView) -> Kept | None:
    """Return what was kept; nothing where it is damaged or of another version."""
    try:
        return read_record(Kept, view.folder.measured)
    except HpsearchError:
        return None
