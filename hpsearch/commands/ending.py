"""Says what a study that was driven to its end has come to, and exports its best."""

from hpsearch.api.driving import failure_of
from hpsearch.commands.export import NUM_GAMES, command_line, print_bundle
from hpsearch.errors import HpsearchError
from hpsearch.export.text import print_verdict
from hpsearch.report.text import print_best
from hpsearch.study.state import FAILED, FINISHED
from hpsearch.study.view import StudyView, best_trial, standing_line
from hpsearch.terminal import Terminal


def say_the_end(view: StudyView, *, export_best: bool) -> int:
    """Say what the study has come to, and export its best; return the exit code."""
    if view.state.status == FAILED:
        raise failure_of(view)
    if view.state.status != FINISHED:
        print(standing_line(view))
        return 0
    console = Terminal()
    trial = best_trial(view)
    if view.study.is_program or not export_best:
        print_best(console, view, trial)
        return 0
    from hpsearch.api.exporting import ChosenTrials, conditions, export_chosen  # it loads torch

    chosen = ChosenTrials([trial], is_one=True, folder=view.folder.best, warning=None)
    how = conditions(NUM_GAMES, key=None, command=command_line())
    try:
        (bundle,) = export_chosen(view, chosen, chosen.folder, how)
    except HpsearchError:
        print_best(console, view, trial)
        raise
    print_verdict(console, bundle.measures["rows"], trial.number, view.config(trial))
    print_best(console, view, trial)
    print_bundle(console, bundle)
    return 0
