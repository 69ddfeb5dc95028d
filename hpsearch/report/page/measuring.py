"""Measuring the players of the best trial for the page."""

from hpsearch.errors import HpsearchError
from hpsearch.report.contestants import find_contestant
from hpsearch.report.examination import CPU, Plan, examine
from hpsearch.report.page.ade import ade_trees
from hpsearch.report.page.material import Measured
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial


def measured(view: StudyView, trial: Trial, plan: Plan) -> Measured | str:
    """Return what the players of a trial's newest checkpoint are worth, or why nobody knows."""
    try:
        contestant = find_contestant(view.folder.trial(trial.number).checkpoints, CPU)
    except HpsearchError as error:
        return str(error)
    return Measured(examine(contestant, plan), ade_trees(contestant))
