"""The best trial of a study."""

from hpsearch.errors import HpsearchError
from hpsearch.report.view import StudyView
from hpsearch.study.state import Trial


def best_trial(view: StudyView) -> Trial:
    """Return the best finished trial.

    Raises:
        HpsearchError: if none has finished.
    """
    best = view.best()
    if best is None:
        raise HpsearchError(
            f"no trial of {view.study.spec.name} has finished yet; "
            f"look at it with: hpsearch status {view.study.spec.name}"
        )
    return best
