"""The study as Optuna would hold it, in memory: for what Optuna computes of finished trials."""

import warnings
from collections.abc import Sequence
from typing import Final

import optuna
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances
from optuna.trial import FrozenTrial, TrialState

from hpsearch.report.objectives import finished
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial
from hpsearch.study.spec import Objective

MIN_TRIALS: Final = 10
"""finished, below which an importance says nothing"""


def importances(view: StudyView, objective: int) -> dict[str, float] | str:
    """Return the share of each parameter in what made trials good, or why there is none.

    By PED-ANOVA: how unlike the parameter's values among the best tenth of the trials are to those
    among all (Watanabe, Bansal, Hutter: PED-ANOVA, IJCAI 2023).

    Args:
        view: the study.
        objective: place of the objective.
    """
    trials = [trial for trial in finished(view) if trial.trains]
    if len(trials) < MIN_TRIALS:
        return f"importances need {MIN_TRIALS} finished trials, there are {len(trials)}"
    asked = view.study.spec.objectives[objective]
    if len({trial.metrics[asked.metric]["value"] for trial in trials}) == 1:
        return "all trials have the same value, so no parameter explains any difference"
    # A study of this objective alone: of a target among several, the direction would not be known.
    study = _study(view, trials, asked)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns where a parameter had few values
        return dict(get_param_importances(study, evaluator=PedAnovaImportanceEvaluator()))


def _study(view: StudyView, trials: Sequence[Trial], objective: Objective) -> optuna.Study:
    """Return the trials, numbered anew from 0, as a study of Optuna."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=objective.goal)
    study.add_trials(_frozen(view, trials, objective.metric))
    return study


def _frozen(view: StudyView, trials: Sequence[Trial], metric: str) -> list[FrozenTrial]:
    distributions = view.study.space.distributions()
    return [
        optuna.trial.create_trial(
            state=TrialState.COMPLETE,
            params=dict(trial.last_params),
            distributions={name: distributions[name] for name in trial.last_params},
            value=trial.metrics[metric]["value"],
        )
        for trial in trials
    ]
