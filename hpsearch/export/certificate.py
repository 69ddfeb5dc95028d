"""The certificate of a bundle: what was measured of its players, and how to repeat it.

Players that learned on a GPU are measured there, if the machine has one: large games take hours
elsewhere.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Final, Literal

import torch

from hpsearch.analysis.examination import SPLIT, ComparedPlayer, compare
from hpsearch.schema import NonNegative, Positive, Range
from hpsearch.trainers.evaluation import BOOTSTRAP_SEED, noise_key_of, starts_key
from hpsearch.trainers.match import threads
from hpsearch.trainers.metrics import MODES, PANELS, worst_name
from hpsearch.trainers.opponents import SavedPlayer

Rows = tuple[ComparedPlayer, ...]
WORST: Final = frozenset(worst_name(mode, role) for mode in MODES for role in PANELS)
"""names of metrics"""


@dataclass(frozen=True)
class CertificateSeeds:
    training: NonNegative  # of the configuration
    starts: NonNegative
    moves: NonNegative  # keys of the starts, and of moves that are drawn
    intervals: NonNegative


@dataclass(frozen=True)
class Conditions:
    split: str  # name of the set of starts, which neither training nor the search uses
    games: Positive  # games an opponent and mode
    max_steps: Positive  # moves after which a game counts as unfinished
    exploration: float  # share of its moves that the sampled policy draws
    seeds: CertificateSeeds
    device: Literal["cpu", "cuda"]  # where the games were played
    threads: Annotated[int, Range(low=1, high=1024)]  # of torch, on the CPU


@dataclass(frozen=True)
class Certificate:
    study: str
    trial: NonNegative
    objective: str  # the metric that the study looks at first
    params: dict[str, Any]  # of the trial, by the dotted path in its configuration
    search_metrics: Any  # what the search measured of it
    conditions: Conditions
    rows: Rows
    crossplay: Any  # its row of the last cross-play; None outside of populations
    provenance: dict[str, str]  # versions of what played, by package


def certify(players: Mapping[str, SavedPlayer], num_games: int) -> tuple[Conditions, Rows]:
    """Measure the players of one configuration, by role, as this machine does it."""
    player = next(iter(players.values()))
    config, is_gpu = player.config, player.net.weights.device.type == "cuda"
    conditions = Conditions(
        split=SPLIT,
        games=num_games,
        max_steps=config.evaluation.max_steps,
        exploration=config.evaluation.er,
        seeds=CertificateSeeds(config.seed, starts_key(SPLIT), noise_key_of(SPLIT), BOOTSTRAP_SEED),
        device="cuda" if is_gpu else "cpu",
        threads=torch.get_num_threads(),
    )
    return conditions, tuple(compare(players, num_games))


def differences(
    players: Mapping[str, SavedPlayer], conditions: Conditions, rows: Rows
) -> list[str]:
    """Measure players again under a certificate's ``conditions``; return a line a difference."""
    with threads(conditions.threads):  # sums that are split otherwise round otherwise
        now, measured = certify(players, conditions.games)
    if not any(name in WORST for row in rows for name in row.metrics):
        measured = tuple(map(_without_worst, measured))
    before, after = _numbers(conditions, rows), _numbers(now, measured)
    lines = [
        f"{name}: certified {before.get(name)}, measured {after.get(name)}"
        for name in dict.fromkeys((*before, *after))
        if before.get(name) != after.get(name)
    ]
    if not lines and rows != measured:  # a row twice, of which the second one is right
        return ["rows: certified are others than are measured, or in another order"]
    return lines


def _without_worst(row: ComparedPlayer) -> ComparedPlayer:
    """Return a row as versions before 0.2 certified it, which did not know the worst of a panel."""
    kept = {name: numbers for name, numbers in row.metrics.items() if name not in WORST}
    return replace(row, metrics=kept)


def _numbers(conditions: Conditions, rows: Rows) -> dict[str, Any]:
    plain = asdict(conditions)
    seeds = {f"seeds.{name}": value for name, value in plain.pop("seeds").items()}
    numbers = {
        f"{row.player}, {metric}, {key}": number
        for row in rows
        for metric, row_numbers in row.metrics.items()
        for key, number in row_numbers.items()
    }
    return {**plain, **seeds, **numbers}
