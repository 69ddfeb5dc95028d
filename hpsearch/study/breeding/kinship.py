"""Kinship: whose networks began as the same ones."""

from collections.abc import Mapping

from hpsearch.study.records import Trial


def family(trial: Trial, known: Mapping[int, Trial]) -> str:
    """Return what a trial's networks began as, one name for all that share it.

    Along first parents, which give all that an operator does not make, and along the copies that
    took a trial's place on its island.

    Args:
        trial: of a population.
        known: the study's trials, by number.
    """
    before = None  # the step of the trial from which its past counts; None: its end
    while True:
        copies = [one for one in trial.takeovers if before is None or one.step < before]
        origin = trial.origin
        if copies:
            trial, before = known[copies[-1].source], copies[-1].source_step
        elif origin is not None and origin.parents:
            trial, before = known[origin.parents[0]], None
        elif origin is not None and origin.founder is not None:
            return f"founder {origin.founder}"
        else:
            return f"trial {trial.number}"
