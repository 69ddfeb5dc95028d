"""The best trial of a study."""

from hpsearch.errors import HpsearchError
from hpsearch.report.view import StudyView
from hpsearch.study.records import FAIL, Trial


def best_trial(view: StudyView) -> Trial:
    """Return the best finished trial.

    Raises:
        HpsearchError: if none has finished.
    """
    best = view.best()
    name, failed = view.study.spec.name, view.state.told(FAIL)
    if best is None and failed and not view.state.unfinished():
        causes = ", ".join(sorted({f"{trial.failure}: {trial.message}" for trial in failed}))
        raise HpsearchError(f"no trial of {name} has finished, {len(failed)} failed ({causes})")
    if best is None:
        raise HpsearchError(
            f"no trial of {name} has finished yet; look at it with: hpsearch status {name}"
        )
    return best
