"""Measuring the players of the best trial for the page; what was measured is kept for the next.

A checkpoint is known by its sha256, and the games are fixed by their seeds, so the same measurement
of it would give the same numbers again.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from hpsearch import __version__, files
from hpsearch.analysis.examination import (
    CPU,
    ExaminationPlan,
    PlayerReport,
    examine,
    find_checkpoint,
    find_player,
)
from hpsearch.cluster.records import read_record
from hpsearch.errors import DiskError, HpsearchError
from hpsearch.report.page.material import MeasuredPlayers
from hpsearch.report.page.trees import AdeTrees, ade_trees
from hpsearch.schema import to_plain
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView
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
    plan: ExaminationPlan
    report: PlayerReport
    trees: AdeTrees | str


def measured(
    view: StudyView, trial: Trial, plan: ExaminationPlan, tell: Callable[[str], None]
) -> MeasuredPlayers | str:
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
            return MeasuredPlayers(kept.report, kept.trees)
        tell(f"measuring trial {trial.number} in {plan.num_games:,} games an opponent")
        player = find_player(path, CPU)
    except HpsearchError as error:
        return str(error)
    report = examine(player, plan)
    tell("drawing its blow-up trees")
    kept = Kept(FORMAT, __version__, identity, plan, report, ade_trees(player))
    with suppress(DiskError):  # a page of a study that may only be read is measured each time
        files.replace_json(view.folder.measured, to_plain(kept))
    return MeasuredPlayers(kept.report, kept.trees)


def _key(kept: Kept) -> tuple[int, str, str, ExaminationPlan]:
    return kept.format, kept.version, kept.checkpoint, kept.plan


def _read(view: StudyView) -> Kept | None:
    """Return what was kept; nothing where it is damaged or of another version."""
    try:
        return read_record(Kept, view.folder.measured)
    except HpsearchError:
        return None
