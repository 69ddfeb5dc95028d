"""Learning curves in the dashboard: those of the page, in place of Optuna's own."""

from hpsearch.errors import HpsearchError
from hpsearch.report.dashboard.drawn import Figure, figure
from hpsearch.report.lineage import Descent, read_lineage
from hpsearch.report.page.curves import curves_chart
from hpsearch.report.page.learning import read_learning
from hpsearch.report.view import StudyView


def learning_curves(view: StudyView) -> Figure | None:
    """Return the curves of the best trials with their intervals, and all others behind them.

    Of a population, whose trials are short, they are those of the lines to the strongest of the
    last match.
    """
    descent = _descent(view)
    best = read_learning(view, view.best(), "not drawn here", descent).best
    if not best and not any(trial.reported for trial in view.state.trials.values()):
        return None
    what = "the best trials" if isinstance(descent, str) else "the lines to the strongest"
    title = f"learning curves: {what}, with 95 % intervals; grey are all others"
    metric = view.study.spec.objectives[0].metric
    drawn = figure(curves_chart(view, best)["data"], title, "step", metric)
    drawn["layout"]["legend"] = {"traceorder": "normal"}
    return drawn


def _descent(view: StudyView) -> Descent | str:
    try:
        return read_lineage(view)
    except HpsearchError as error:
        return str(error)
