"""Which trials of a study are exported: the best, the K best, or those that no other one beats."""

from collections.abc import Sequence

from hpsearch.analysis.candidates import all_candidates, front
from hpsearch.analysis.confirmation import read_confirmed
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView, best_trial


def the_best(view: StudyView, confirm: str) -> tuple[Trial, str | None]:
    """Return the best when confirmed, else the search's or the last match's; and a remark on it.

    The command ``confirm`` would tell whether it was lucky. Raises HpsearchError if no trial has
    finished; CorruptError if the confirmation is damaged.
    """
    name, best, confirmed = view.study.spec.name, best_trial(view), read_confirmed(view)
    if confirmed is None:
        return best, unconfirmed(view, confirm)
    trial, is_current = confirmed
    if not is_current:
        remark = f"the confirmation of {name} is out of date, its best are others by now"
        return best, remark
    if trial == best.number:
        return best, None
    what = f"exported is trial {trial}, the best when confirmed; the search's is {best.number}"
    return view.state.trials[trial], what


def unconfirmed(view: StudyView, confirm: str) -> str | None:
    """Return the remark on a study of which nothing is confirmed, None where something is."""
    if view.folder.confirmation.exists():
        return None
    name = view.study.spec.name
    return f"{name} is not confirmed: its best may be the luckiest; compare with: {confirm}"


def the_top(view: StudyView, count: int, best: Trial) -> list[Trial]:
    """Return the ``count`` best trials, ``best`` first, or as many as there are.

    Of a search those of different configurations, by the first objective; of a population the
    members of its last match, by their strength there.
    """
    others = [trial for trial in _ranked(view) if trial.number != best.number]
    return [best, *others][:count]


def the_front(view: StudyView) -> list[Trial]:
    """Return the finished trials that no other one beats in every objective; see `front`.

    Raises UsageError if the study has one objective; HpsearchError if no trial has finished that
    all of them were measured of.
    """
    name, objectives = view.study.spec.name, view.study.spec.objectives
    if len(objectives) == 1:
        raise UsageError(
            f"{name} has one objective, {objectives[0].metric}, so there is no front; export the "
            "best few with --top"
        )
    unbeaten = front(view)
    if not unbeaten:
        raise HpsearchError(f"no trial of {name} has finished that all objectives were measured of")
    return unbeaten


def _ranked(view: StudyView) -> Sequence[Trial]:
    decided = [match for match in view.state.population.matches.values() if match.is_over]
    if not decided:
        return [candidate.trial for candidate in all_candidates(view)]
    strengths = decided[-1].strengths
    numbers = sorted(strengths, key=lambda number: -strengths[number])
    return [view.state.trials[number] for number in numbers]
