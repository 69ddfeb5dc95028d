"""What finished trials achieve on starts that neither training nor the search has seen.

Players whose networks have one structure are measured at once.
"""

import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from hpsearch.analysis.compare import SPLIT, device_of
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.errors import ConflictError, CorruptError
from hpsearch.game.rules import GameConfig
from hpsearch.population.best_response import exploit
from hpsearch.population.crossplay import MAX_COORDINATES, banks
from hpsearch.study.records import Trial
from hpsearch.study.view import StudyView
from hpsearch.trainers.evaluation import Measurement, Metrics, evaluate, scripted
from hpsearch.trainers.metrics import MODES, PANELS, exploitability_name
from hpsearch.trainers.opponents import SavedPlayer, load_player
from hpsearch.trainers.rollouts import game_config


@dataclass(frozen=True)
class Rules:
    """What players must have in common to be measured at once."""

    game: GameConfig
    max_steps: int
    exploration: float
    opponents: tuple[str, ...]


def held_out_values(
    view: StudyView, trials: Sequence[Trial], num_games: int
) -> dict[int, dict[str, float]]:
    """Return the objectives' metrics of finished trials on held-out starts, by trial and name.

    A trial whose last checkpoint is missing or damaged is named on stderr and left out.
    """
    metrics = [objective.metric for objective in view.study.spec.objectives]
    values_of: dict[int, dict[str, float]] = {trial.number: {} for trial in trials}
    for role in sorted({metric.split("/")[1] for metric in metrics}):
        players = dict(_players(view, trials, role))
        for rules, some in _by_rules(players, role, _opponents(metrics, role)).items():
            for number, measured in _measure(role, some, rules, num_games):
                values_of[number] |= {
                    metric: measured[metric].value for metric in metrics if metric in measured
                }
    return {number: values for number, values in values_of.items() if len(values) == len(metrics)}


def exploited_values(
    view: StudyView, trial: Trial, num_games: int, response_steps: int
) -> dict[str, float]:
    """Return what best responses take from the roles of a finished trial that the objectives name.

    Raises:
        CorruptError, ConflictError: as `exploit`.
    """
    config = view.config(trial)
    path = view.folder.checkpoint(final_checkpoint(trial.number, config["steps"]))
    roles = sorted({objective.metric.split("/")[1] for objective in view.study.spec.objectives})
    return {
        exploitability_name(role): exploit(
            path,
            role,
            steps=response_steps,
            num_games=num_games,
            max_steps=config["evaluation"]["max_steps"],
            split=SPLIT,
            device=device_of(config["device"]),
        ).value
        for role in roles
    }


def _players(
    view: StudyView, trials: Sequence[Trial], role: str
) -> Iterator[tuple[int, SavedPlayer]]:
    for trial in trials:
        config = view.config(trial)
        path = view.folder.checkpoint(final_checkpoint(trial.number, config["steps"]))
        try:
            yield trial.number, load_player(path, role, device_of(config["device"]))
        except (ConflictError, CorruptError) as error:
            name = view.study.spec.name
            print(f"hpsearch: trial {trial.number} of {name}: {error}", file=sys.stderr)


def _opponents(metrics: Sequence[str], role: str) -> set[str]:
    """Return a role's opponents for these metrics: the one that they name, or its panel."""
    names: set[str] = set()
    for metric in metrics:
        _, whose, *opponent = metric.split("/")
        if whose == role:
            names.update(opponent or PANELS[role])
    return names


def _by_rules(
    players: Mapping[int, SavedPlayer], role: str, wanted: Collection[str]
) -> dict[Rules, dict[int, SavedPlayer]]:
    groups: dict[Rules, dict[int, SavedPlayer]] = {}
    for number, player in players.items():
        config = player.config
        rules = Rules(
            game_config(config),
            config.evaluation.max_steps,
            config.evaluation.er,
            tuple(name for name in config.measured_against()[role] if name in wanted),
        )
        groups.setdefault(rules, {})[number] = player
    return groups


def _measure(
    role: str, players: Mapping[int, SavedPlayer], rules: Rules, num_games: int
) -> Iterator[tuple[int, Metrics]]:
    """Yield what each player achieves; as many play at once as memory allows."""
    of_a_player = len(MODES) * num_games * rules.game.max_num_points * rules.game.dimension
    waiting = iter(players.items())
    while some := dict(islice(waiting, max(1, MAX_COORDINATES // of_a_player))):
        device = next(iter(some.values())).net.weights.device
        how = Measurement(
            rules.game, num_games, rules.max_steps, rules.exploration, SPLIT, MODES, device
        )
        named = {str(number): player for number, player in some.items()}
        opponents = scripted(rules.opponents)
        for bank in banks(named):
            results = evaluate(role, bank.policy, opponents, len(bank.names), how)
            for name, result in zip(bank.names, results, strict=True):
                yield int(name), result.metrics
