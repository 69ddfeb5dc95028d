"""Compares a schedule on new seeds with the trial that it led to: a good schedule, or luck?

Axes: K replicates, R draws.
"""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console

from hpsearch.analysis.confirmation import NUM_DRAWS, CandidateVerdict, judge_seeds
from hpsearch.analysis.held_out import last_checkpoints, meet, playing_device
from hpsearch.errors import HpsearchError
from hpsearch.population.statistics import CONFIDENCE, drawn_means, interval
from hpsearch.study.derived import population_of
from hpsearch.study.view import StudyView
from hpsearch.terminal import print_line, print_whole, text_table


@dataclass(frozen=True)
class Replicate:
    member: int  # of the study that trained it
    trial: int  # the member's last one
    strength: float  # in logarithms of rho


@dataclass(frozen=True)
class Replay:
    study: str
    trial: int  # that the schedule led to
    trained_by: str
    intervals: int
    games: int  # of each pair
    mixed: int  # intervals in which an operator had changed the weights, which no schedule repeats
    original: float  # strength of the trial
    replicates: tuple[Replicate, ...]  # the strongest first
    unfinished: int  # members that did not get through the schedule, or whose checkpoint is gone
    verdict: CandidateVerdict  # on the mean of the replicates
    expected: tuple[float, float] | None  # in which one more seed lies with 95 %, if known

    @property
    def rank(self) -> int:
        return 1 + sum(replicate.strength > self.original for replicate in self.replicates)

    @property
    def held_up(self) -> bool | None:
        """Return whether the schedule gives what the original is; None if that cannot be told."""
        return None if self.expected is None else self.original <= self.expected[1]


def compare_replay(
    view: StudyView, trial: int, trained: StudyView, num_games: int, mixed: int
) -> Replay:
    options = population_of(trained.study)
    assert options is not None, "a replay is a population with a schedule"
    intervals = trained.study.spec.budget.trials // options.members
    whole = _whole(trained, intervals * options.interval)
    original = original_checkpoint(view, trial)
    paths = last_checkpoints(trained, whole)
    if not paths:
        raise HpsearchError(
            f"no member of {trained.name} has got through the schedule and kept its "
            f"checkpoint; look at it with: hpsearch status {trained.name}"
        )
    players = {"original": original} | {str(member): path for member, path in paths.items()}
    (strength, *scores), _ = meet(players, options.matches, num_games, playing_device(view))
    replicates = [
        Replicate(whole[number], number, score) for number, score in zip(paths, scores, strict=True)
    ]
    (verdict,) = judge_seeds([scores], "maximize")
    return Replay(
        study=view.name,
        trial=trial,
        trained_by=trained.name,
        intervals=intervals,
        games=num_games,
        mixed=mixed,
        original=strength,
        replicates=tuple(sorted(replicates, key=lambda replicate: -replicate.strength)),
        unfinished=options.members - len(replicates),
        verdict=verdict,
        expected=expected_of(scores),
    )


def _whole(trained: StudyView, last_step: int) -> dict[int, int]:
    """Return the trials at the end of the schedule, with their members."""
    whole = {}
    for number in trained.state.population.finished.values():
        planned = trained.state.trials[number].origin
        if planned is not None and planned.steps == last_step:
            whole[number] = planned.member
    return whole


def expected_of(scores: list[float]) -> tuple[float, float] | None:
    """Return the interval in which one more seed lies with 95 %, by the model of `drawn_means`.

    The interval of the mean would be too narrow: with many seeds every second training of the same
    schedule lies above it.
    """
    if len(scores) < 2:  # which tells nothing of the spread over seeds
        return None
    means = drawn_means([scores], np.random.default_rng(0), NUM_DRAWS)
    centre = float(np.mean(scores))
    # A draw of the mean is off by the spread over the root of K, one seed by the spread besides.
    ends = interval(centre + (means - centre) * np.sqrt(len(scores) + 1), CONFIDENCE)
    low, high = ends[:, 0].tolist()
    return low, high


def original_checkpoint(view: StudyView, trial: int) -> Path:
    """Return the last checkpoint of the trial that is replayed; HpsearchError if gone."""
    checkpoints = last_checkpoints(view, [trial])
    if not checkpoints:
        raise HpsearchError(
            f"the last checkpoint of trial {trial} of {view.name} is gone or damaged, "
            "so nothing can be compared with it; name another trial with --trial"
        )
    return checkpoints[trial]


def plain_replay(replay: Replay, conclusion: str) -> dict[str, Any]:
    """Return a replay as JSON holds it: the keys here are published and stay.

    study, trial, trained_by, intervals, games, mixed, original {strength, rank}, replicates, the
    strongest first: member, trial (of trained_by), strength; unfinished, mean, low, high (of the
    mean), iqm, expected {low, high} (of one more seed), held_up, conclusion. What is not known is
    null.
    """
    mean, low, high, iqm, _ = replay.verdict
    plain = asdict(replay)
    del plain["verdict"]
    return {
        **plain,
        **{"mean": mean, "low": low, "high": high, "iqm": iqm},
        "original": {"strength": replay.original, "rank": replay.rank},
        "expected": dict(zip(("low", "high"), replay.expected or (None, None), strict=True)),
        "held_up": replay.held_up,
        "conclusion": conclusion,
    }


ENOUGH_SEEDS: Final = 4  # below which the interval of one more seed holds nearly everything


def print_replay(console: Console, replay: Replay, conclusion: str) -> None:
    title = (
        f"{replay.study}: the {replay.intervals} intervals that led to trial {replay.trial}, on "
        f"seeds held out (by {replay.trained_by}) and starts held out "
        f"({replay.games:,} games each pair)"
    )
    print_line(console, title, style="bold")
    rows = [("original", replay.trial, replay.original)]
    rows += [(f"seed {r.member}", r.trial, r.strength) for r in replay.replicates]
    rows.sort(key=lambda row: -row[2])
    cells = ((who, str(trial), f"{strength:+.4f}") for who, trial, strength in rows)
    print_whole(console, text_table(("who", "trial", "strength"), cells))
    print_line(console, _mean_text(replay))
    print_line(console, conclusion)


def conclusion_text(replay: Replay) -> str:
    trial = f"trial {replay.trial}"
    if replay.expected is None:
        return (
            "one training tells nothing of the spread over seeds, so whether the schedule holds up "
            "is not known"
        )
    low, high = replay.expected
    where = f"where a new seed gives {low:+.3f} to {high:+.3f} with 95 %"
    if not replay.held_up:
        return f"{trial} was lucky: its strength is {replay.original:+.3f}, {where}"
    if (seeds := len(replay.replicates)) < ENOUGH_SEEDS:
        return (
            f"{seeds} seeds are too few to tell whether the schedule holds up: {trial} has "
            f"{replay.original:+.3f}, {where}; {ENOUGH_SEEDS} or more tell"
        )
    return f"the schedule holds up: {trial} has {replay.original:+.3f}, {where}"


def _mean_text(replay: Replay) -> str:
    verdict, num = replay.verdict, len(replay.replicates)
    ends = ""
    if verdict.low is not None and verdict.high is not None:
        ends = f" [{verdict.low:+.4f}, {verdict.high:+.4f}]"
    iqm = "" if verdict.iqm is None else f", IQM {verdict.iqm:+.4f}"
    missing = f", {replay.unfinished} did not get through" if replay.unfinished else ""
    return f"mean of {num} seeds {verdict.mean:+.4f}{ends}{iqm}{missing}"
