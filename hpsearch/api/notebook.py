"""How studies show themselves in Jupyter: their status as HTML, figures by plotly."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from hpsearch.errors import HpsearchError, UsageError
from hpsearch.report.text import print_status, status_summary
from hpsearch.study.view import StudyView
from hpsearch.terminal import print_line, to_html

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure


def status_html(look: Callable[[], StudyView]) -> str:
    """Return as HTML what `hpsearch status` prints of a study, or why it cannot be looked at."""
    try:
        view = look()
    except HpsearchError as error:
        sentence = str(error)
        return to_html(lambda console: print_line(console, sentence))
    return to_html(lambda console: print_status(console, view, status_summary(view)))


def data_frame(
    rows: object, columns: Sequence[str], index: Sequence[str] | None = None
) -> "DataFrame":
    """Return a table of rows, a sequence or a matrix; UsageError where pandas is not installed."""
    try:
        from pandas import DataFrame
    except ImportError as error:
        raise UsageError(
            "a data frame needs pandas: pip install 'hpsearch[notebook]', or take plain records"
        ) from error
    return DataFrame(rows, columns=columns, index=index)


def history_figure(view: StudyView) -> "Figure":
    """Return the value of each finished trial by the first objective, and the best so far."""
    from hpsearch.analysis.candidates import finished  # it loads numpy, which no status needs
    from hpsearch.report.page.material import drawn_part
    from hpsearch.report.page.search import history_chart

    if not finished(view):
        raise HpsearchError(f"no trial of {view.name} has finished yet, so nothing can be drawn")
    drawn = drawn_part(view, view.best())
    return _figure(history_chart(view, drawn, view.study.spec.objectives[0]))


def learning_figure(view: StudyView) -> "Figure":
    """Return the learning curves of the best trials, with those of all others behind them."""
    from hpsearch.analysis.lineage import lineage_or_why
    from hpsearch.report.page.material import read_learning
    from hpsearch.report.page.search import curves_chart

    learning = read_learning(view, view.best(), "not asked for", lineage_or_why(view))
    if not learning.best and not any(trial.reported for trial in view.state.trials.values()):
        raise HpsearchError(f"no trial of {view.name} has been measured yet")
    return _figure(curves_chart(view, learning.best))


def _figure(chart: dict[str, object]) -> "Figure":
    try:
        from plotly.graph_objects import Figure
    except ImportError as error:
        raise UsageError("a figure needs plotly: pip install plotly") from error
    return Figure(chart)
