"""Configurations compared by the seeds on which a confirmation has trained them."""

import sys
from collections import Counter
from collections.abc import Mapping, Sequence

from hpsearch.analysis.candidates import Candidate
from hpsearch.analysis.confirmation import (
    CandidateVerdict,
    Confirmation,
    Entry,
    SeedTraining,
    judge_seeds,
    ranked,
)
from hpsearch.analysis.remeasure import exploited_values, held_out_values
from hpsearch.errors import CorruptError
from hpsearch.study.derived import SEED, key
from hpsearch.study.records import COMPLETE, FAIL, Trial
from hpsearch.study.view import StudyView, best_trial


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
    known = [candidate for candidate in compared if seeds.get(candidate.key)]
    scores = [
        [seed.metrics[objective.metric] for seed in seeds[candidate.key]] for candidate in known
    ]
    judged = judge_seeds(scores, objective.goal)
    verdicts = {candidate.key: verdict for candidate, verdict in zip(known, judged, strict=True)}
    entries = [
        _entry(candidate, objective.metric, verdicts.get(candidate.key), seeds, failed)
        for candidate in compared
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
    candidate: Candidate,
    metric: str,
    verdict: CandidateVerdict | None,
    seeds: Mapping[str, list[SeedTraining]],
    failed: Mapping[str, int],
) -> Entry:
    believed = candidate.trial.metrics[metric]
    search = {name: believed[name] for name in ("value", "low", "high")}
    return Entry(
        candidate.trial.number,
        search,
        verdict,
        tuple(seeds.get(candidate.key, ())),
        failed.get(candidate.key, 0),
    )


def _seeds(
    trained: StudyView, num_games: int, response_steps: int | None
) -> dict[str, list[SeedTraining]]:
    """Return each configuration's trainings that could be measured, in their order."""
    finished = trained.state.told(COMPLETE)
    values = held_out_values(trained, finished, num_games)
    if response_steps is not None:
        for trial in (trained for trained in finished if trained.number in values):
            values[trial.number] |= exploited_values(trained, trial, num_games, response_steps)
    trainings: dict[str, list[SeedTraining]] = {}
    for trial in finished:
        if trial.number in values:
            training = SeedTraining(trained.config(trial)[SEED], trial.number, values[trial.number])
            trainings.setdefault(_key(trained, trial), []).append(training)
    if not trainings:
        raise CorruptError(
            f"no checkpoint of {trained.study.spec.name} is whole, so nothing can be compared; "
            "restore its folder, or search again under another name"
        )
    return trainings


def _failed(
    view: StudyView, trained: StudyView, compared: Sequence[Candidate]
) -> Mapping[str, int]:
    """Return how many trainings of each configuration failed for good, which is told on stderr."""
    again = {trial.retry_of for trial in trained.state.trials.values()}
    failures: dict[str, list[Trial]] = {}
    for trial in trained.state.told(FAIL):
        if trial.number not in again:
            failures.setdefault(_key(trained, trial), []).append(trial)
    for candidate in compared:
        for kind, count in Counter(
            trial.failure for trial in failures.get(candidate.key, ())
        ).items():
            print(
                f"hpsearch: trial {candidate.trial.number} of {view.study.spec.name}: {count} of "
                f"its trainings failed ({kind}); it is compared on the seeds it has",
                file=sys.stderr,
            )
    return {name: len(trials) for name, trials in failures.items()}


def _key(view: StudyView, trial: Trial) -> str:
    return key(view.study.space.decode(trial.params))
