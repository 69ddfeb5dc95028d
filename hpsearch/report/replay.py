"""A schedule on new seeds beside the trial that it led to: a good schedule, or luck.

Axes: K replicates, R draws.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from hpsearch.errors import HpsearchError
from hpsearch.population.comparing.chance_of_best import drawn_means
from hpsearch.population.ratings.resampling import interval
from hpsearch.report.confirmation import CONFIDENCE, MAXIMIZE, NUM_DRAWS, Verdict, judge_seeds
from hpsearch.report.meeting import last_checkpoints, meet, playing_device
from hpsearch.report.view import StudyView
from hpsearch.study.records import Trial
from hpsearch.study.replaying import population_of

MIN_SEEDS: Final = 2
"""below which nothing is known of the spread over seeds"""


@dataclass(frozen=True)
class Replicate:
    """One training of the whole schedule."""

    member: int
    """of the study that trained it"""
    trial: int
    """the member's last one"""
    strength: float
    """in logarithms of rho"""


@dataclass(frozen=True)
class Replay:
    """A schedule on new seeds."""

    study: str
    trial: int
    """that the schedule led to"""
    trained_by: str
    intervals: int
    games: int
    """of each pair"""
    mixed: int
    """intervals in which an operator had changed the weights, which no schedule repeats"""
    original: float
    """strength of the trial"""
    replicates: tuple[Replicate, ...]
    """the strongest first"""
    unfinished: int
    """members that did not get through the schedule, or whose checkpoint is gone"""
    verdict: Verdict
    """on the mean of the replicates"""
    expected: tuple[float, float] | None
    """in which one more seed would lie with 95 %, None where nothing is known of the spread"""

    @property
    def rank(self) -> int:
        """Return the place of the original among all who played, 1 for the strongest."""
        return 1 + sum(one.strength > self.original for one in self.replicates)

    @property
    def held_up(self) -> bool | None:
        """Return whether the schedule gives what the original is; None if nobody can tell."""
        return None if self.expected is None else self.original <= self.expected[1]


def compare_replay(
    view: StudyView, trial: int, trained: StudyView, num_games: int, mixed: int
) -> Replay:
    """Let the replicates, the original and the panel meet on held-out starts.

    Args:
        view: the population.
        trial: whose schedule was trained again.
        trained: the study that trained it.
        num_games: of each pair.
        mixed: intervals in which an operator had changed the weights.

    Raises:
        HpsearchError: if no replicate has got through the schedule, or no checkpoint is left.
    """
    options = population_of(trained.study)
    assert options is not None, "a replay is a population with a schedule"
    whole = _whole(trained)
    original = original_checkpoint(view, trial)
    paths = last_checkpoints(trained, whole)
    if not paths:
        raise HpsearchError(
            f"no member of {trained.study.spec.name} has got through the schedule and kept its "
            f"checkpoint; look at it with: hpsearch status {trained.study.spec.name}"
        )
    players = {"original": original} | {str(one): path for one, path in paths.items()}
    met = meet(players, options.matches, num_games, playing_device(view))
    found = [
        Replicate(whole[number].member, number, strength)
        for number, strength in zip(paths, met.strengths[1:], strict=True)
    ]
    scores = [one.strength for one in found]
    (verdict,) = judge_seeds([scores], MAXIMIZE)
    return Replay(
        study=view.study.spec.name,
        trial=trial,
        trained_by=trained.study.spec.name,
        intervals=_num_intervals(trained),
        games=num_games,
        mixed=mixed,
        original=met.strengths[0],
        replicates=tuple(sorted(found, key=lambda one: -one.strength)),
        unfinished=options.members - len(found),
        verdict=verdict,
        expected=expected_of(scores),
    )


def expected_of(scores: list[float]) -> tuple[float, float] | None:
    """Return the interval in which one more seed lies with 95 %, by the model of `drawn_means`.

    The interval of the mean would be too narrow: with many seeds every second training of the same
    schedule lies above it.
    """
    num = len(scores)
    if num < MIN_SEEDS:
        return None
    means = drawn_means([scores], np.random.default_rng(0), NUM_DRAWS)
    centre = float(np.mean(scores))
    # A draw of the mean is off by the spread over the root of K, one seed by the spread besides.
    low, high = interval(centre + (means - centre) * np.sqrt(num + 1), CONFIDENCE)[:, 0].tolist()
    return low, high


def original_checkpoint(view: StudyView, trial: int) -> Path:
    """Return the last checkpoint of the trial whose schedule is tried.

    Raises:
        HpsearchError: if it is gone.
    """
    found = last_checkpoints(view, [trial])
    if not found:
        raise HpsearchError(
            f"the last checkpoint of trial {trial} of {view.study.spec.name} is gone or damaged, "
            "so nothing can be compared with it; name another trial with --trial"
        )
    return found[trial]


def plain_replay(found: Replay, conclusion: str) -> dict[str, Any]:
    """Return a replay as JSON holds it: the keys here are published and stay.

    study, trial, trained_by, intervals, games, mixed, original {strength, rank}, replicates, the
    strongest first: member, trial (of trained_by), strength; unfinished, mean, low, high (of the
    mean), iqm, expected {low, high} (of one more seed), held_up, conclusion. What is not known is
    null.
    """
    low, high = (None, None) if found.expected is None else found.expected
    verdict = asdict(found.verdict)
    del verdict["chance"]
    return {
        "study": found.study,
        "trial": found.trial,
        "trained_by": found.trained_by,
        "intervals": found.intervals,
        "games": found.games,
        "mixed": found.mixed,
        "original": {"strength": found.original, "rank": found.rank},
        "replicates": [asdict(one) for one in found.replicates],
        "unfinished": found.unfinished,
        **verdict,
        "expected": {"low": low, "high": high},
        "held_up": found.held_up,
        "conclusion": conclusion,
    }


def _num_intervals(trained: StudyView) -> int:
    spec = trained.study.spec
    options = population_of(trained.study)
    assert options is not None, "a replay is a population with a schedule"
    return spec.budget.trials // options.members


def _whole(trained: StudyView) -> dict[int, Trial]:
    """Return the trials that end the schedule, one of each member that has got so far."""
    options = population_of(trained.study)
    assert options is not None, "a replay is a population with a schedule"
    steps = _num_intervals(trained) * options.interval
    newest = trained.state.population.finished.values()
    trials = (trained.state.trials[number] for number in newest)
    return {
        one.number: one for one in trials if one.origin is not None and one.origin.steps == steps
    }
