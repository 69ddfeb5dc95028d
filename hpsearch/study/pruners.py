"""Optuna's pruners, built from the options of a study file."""

from typing import assert_never

import optuna
from optuna.pruners import BasePruner

from hpsearch.study.options import (
    HyperbandOptions,
    MedianOptions,
    NoPruning,
    Pruner,
    SuccessiveHalvingOptions,
)


def build_pruner(options: Pruner) -> BasePruner:
    """Return a pruner whose decisions depend on its options and the study's trials alone."""
    match options:
        case NoPruning():
            return optuna.pruners.NopPruner()
        case MedianOptions():
            return optuna.pruners.MedianPruner(
                options.n_startup_trials,
                options.n_warmup_steps,
                options.interval_steps,
                n_min_trials=options.n_min_trials,
            )
        case SuccessiveHalvingOptions():
            return optuna.pruners.SuccessiveHalvingPruner(
                options.min_resource,
                options.reduction_factor,
                options.min_early_stopping_rate,
                options.bootstrap_count,
            )
        case HyperbandOptions():
            return optuna.pruners.HyperbandPruner(
                options.min_resource,
                options.max_resource,
                options.reduction_factor,
                options.bootstrap_count,
            )
        case _:
            assert_never(options)
