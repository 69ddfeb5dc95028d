"""Configurations compared by the seeds on which a confirmation has trained them."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from hpsearch.errors import CorruptError
from hpsearch.report.best import best_trial
from hpsearch.report.candidates import Candidate
from hpsearch.report.confirmation import (
    Confirmation,
    Entry,
    Training,
    Verdict,
    judge_seeds,
    ranked,
)
from hpsearch.report.remeasure import exploited_values, held_out_values
from hpsearch.report.view import StudyView
from hpsearch.study.confirming import SEED, key
from hpsearch.study.records import COMPLETE, FAIL, Trial


def compare_seeds(
    view: StudyView,
    trained: StudyView,
    compared: Sequence[Candidate],
    num_games: int,
    response_steps: int | None,
) -> Confirmation:
    """Measure what was trained on held-out starts, and compare the configurations.

    Args:
        view: the search.
        trained: the study that trained its configurations again.
        compared: these.
        num_games: games of each.
        response_steps: for which a best response to each trained player trains; None trains none.

    Raises:
        CorruptError: if no checkpoint is left to be measured.
    """
    objective = view.study.spec.objectives[0]
    seeds = _seeds(trained, num_games, response_steps)
    failed = _failed(view, trained, compared)
    known = [one for one in compared if seeds.get(one.key)]
    scores = [[seed.metrics[objective.metric] for seed in seeds[one.key]] for one in known]
    judged = judge_seeds(scores, objective.goal)
    verdicts = {one.key: verdict for one, verdict in zip(known, judged, strict=True)}
    entries = [
        _entry(one, objective.metric, verdicts.get(one.key), seeds, failed) for one in compared
    ]
    return Confirmation(
        study=view.study.spec.name,
        trained_by=trained.study.spec.name,
        metric=objective.metric,
        goal=objective.goal,
        games=num_games,
        response_steps=response_steps,
        top=len(compared),
        match=None,
        favourite=best_trial(view).number,
        entries=ranked(entries, objective.goal),
    )


def _entry(
    one: Candidate,
    metric: str,
    verdict: Verdict | None,
    seeds: Mapping[str, list[Training]],
    failed: Mapping[str, int],
) -> Entry:
    believed = one.trial.metrics[metric]
    search = {name: believed[name] for name in ("value", "low", "high")}
    return Entry(
        one.trial.number, search, verdict, tuple(seeds.get(one.key, ())), failed.get(one.key, 0)
    )


def _seeds(
    trained: StudyView, num_games: int, response_steps: int | None
) -> dict[str, list[Training]]:
    """Return each configuration's trainings that could be measured, in their order."""
    finished = trained.state.told(COMPLETE)
    values = held_out_values(trained, finished, num_games)
    if response_steps is not None:
        for trial in (one for one in finished if one.number in values):
            values[trial.number] |= exploited_values(trained, trial, num_games, response_steps)
    found: dict[str, list[Training]] = {}
    for trial in finished:
        if trial.number in values:
            training = Training(trained.config(trial)[SEED], trial.number, values[trial.number])
            found.setdefault(_key(trained, trial), []).append(training)
    if not found:
        raise CorruptError(
            f"no checkpoint of {trained.study.spec.name} is whole, so nothing can be compared; "
            "restore its folder, or search again under another name"
        )
    return found


def _failed(
    view: StudyView, trained: StudyView, compared: Sequence[Candidate]
) -> Mapping[str, int]:
    """Return how many trainings of each configuration failed for good, which is told on stderr."""
    again = {trial.retry_of for trial in trained.state.trials.values()}
    failures: dict[str, list[Trial]] = {}
    for trial in trained.state.told(FAIL):
        if trial.number not in again:
            failures.setdefault(_key(trained, trial), []).append(trial)
    for one in compared:
        for kind, count in Counter(trial.failure for trial in failures.get(one.key, ())).items():
            print(
                f"hpsearch: trial {one.trial.number} of {view.study.spec.name}: {count} of its "
                f"trainings failed ({kind}); it is compared on the seeds it has",
                file=sys.stderr,
            )
    return {name: len(trials) for name, trials in failures.items()}


def _key(view: StudyView, trial: Trial) -> str:
    return key(view.study.space.decode(trial.params))
