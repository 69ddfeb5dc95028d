"""The two ways to confirm: on new seeds, and by new games among the strongest of a population.

All on starts that neither training nor the search has used. Axes: K players, R samples.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from hpsearch.analysis import confirmation
from hpsearch.analysis.candidates import Candidate, last_match, strongest_members
from hpsearch.analysis.confirmation import Confirmation, ConfirmedTrial, SeedTraining
from hpsearch.analysis.examination import SPLIT, device_of, held_out_games
from hpsearch.errors import ConflictError, CorruptError, HpsearchError
from hpsearch.population.best_response import exploit
from hpsearch.population.crossplay import Players, common_game, play_everybody
from hpsearch.population.fitness import Places, opponent_weights, strengths
from hpsearch.population.options import Matches, PopulationOptions, scripted_players
from hpsearch.population.statistics import Floats, resampled_rho
from hpsearch.study.derived import SEED, key
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.view import StudyView, best_trial
from hpsearch.terminal import say
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.evaluation import evaluate, scripted
from hpsearch.trainers.metrics import PANELS, exploitability_name
from hpsearch.trainers.opponents import SavedPlayer, load_player, saved_roles

Values = dict[str, float]  # of metrics, by name


def compare_seeds(
    view: StudyView,
    trained: StudyView,
    compared: Sequence[Candidate],
    num_games: int,
    response_steps: int | None,
) -> Confirmation:
    """Measure what was trained on held-out starts, also by best responses, and compare it."""
    metric, goal = view.metric, view.study.spec.objectives[0].goal
    seeds, failed = _seeds(trained, num_games, response_steps), _failed(view, trained, compared)
    known = [candidate.key for candidate in compared if seeds.get(candidate.key)]
    scores = [[seed.metrics[metric] for seed in seeds[key]] for key in known]
    verdicts = dict(zip(known, confirmation.judge_seeds(scores, goal), strict=True))
    trials = [
        ConfirmedTrial(
            candidate.trial.number,
            {end: candidate.trial.metrics[metric][end] for end in ("value", "low", "high")},
            *verdicts.get(candidate.key, confirmation.CandidateVerdict()),
            failed.get(candidate.key, 0),
            tuple(seeds.get(candidate.key, ())),
        )
        for candidate in compared
    ]
    return Confirmation(
        study=view.name,
        trained_by=trained.name,
        metric=metric,
        goal=goal,
        games=num_games,
        response_steps=response_steps,
        top=len(compared),
        match=None,
        favourite=best_trial(view).number,
        trials=confirmation.ranked(trials, goal),
    )


def _seeds(
    trained: StudyView, num_games: int, response_steps: int | None
) -> dict[str, list[SeedTraining]]:
    """Return the trainings of each configuration, by its key."""
    finished = trained.state.told(COMPLETE)
    values = held_out_values(trained, finished, num_games)
    trainings: dict[str, list[SeedTraining]] = {}
    for trial in finished:
        if trial.number in values:
            metrics = values[trial.number]
            if response_steps is not None:
                metrics |= exploited_values(trained, trial, num_games, response_steps)
            training = SeedTraining(trained.config(trial)[SEED], trial.number, metrics)
            trainings.setdefault(_key(trained, trial), []).append(training)
    if not trainings:
        raise CorruptError(
            f"no checkpoint of {trained.name} is whole, so nothing can be compared; "
            "restore its folder, or search again under another name"
        )
    return trainings


def held_out_values(view: StudyView, trials: Sequence[Trial], num_games: int) -> dict[int, Values]:
    """Return metrics on held-out starts, by trial; one without checkpoint is said and left out."""
    metrics = [objective.metric for objective in view.study.spec.objectives]
    values: dict[int, Values] = {}
    for trial in trials:
        try:
            values[trial.number] = _measured(view, trial, metrics, num_games)
        except (ConflictError, CorruptError) as error:
            say(f"trial {trial.number} of {view.name}: {error}")
    return {number: known for number, known in values.items() if len(known) == len(metrics)}


def _measured(view: StudyView, trial: Trial, metrics: Sequence[str], num_games: int) -> Values:
    device = device_of(view.config(trial)["device"])
    values: Values = {}
    for role in _roles(metrics):
        player = load_player(_last_checkpoint(view, trial), role, device)
        known = player.config.measured_against()[role]
        opponents = scripted([name for name in known if name in _opponents(metrics, role)])
        how = held_out_games(player.config, num_games, device)
        measured = evaluate(role, player.policy, opponents, 1, how)[0].metrics
        values |= {metric: measured[metric].value for metric in metrics if metric in measured}
    return values


def _roles(metrics: Iterable[str]) -> list[str]:
    return sorted({metric.split("/")[1] for metric in metrics})


def _opponents(metrics: Sequence[str], role: str) -> set[str]:
    """Return a role's opponents for these metrics: the one that they name, or its panel."""
    names: set[str] = set()
    for metric in metrics:
        _, whose, *opponent = metric.split("/")
        if whose == role:
            names.update(opponent or PANELS[role])
    return names


def exploited_values(view: StudyView, trial: Trial, num_games: int, response_steps: int) -> Values:
    """Return what best responses take from the objectives' roles; raises as `exploit`."""
    path, device = _last_checkpoint(view, trial), device_of(view.config(trial)["device"])
    return {
        exploitability_name(role): exploit(
            path, role, steps=response_steps, num_games=num_games, split=SPLIT, device=device
        ).value
        for role in _roles(objective.metric for objective in view.study.spec.objectives)
    }


def _last_checkpoint(view: StudyView, trial: Trial) -> Path:
    folder = view.folder.trial(trial.number).checkpoints
    return checkpoint.path_of(folder, view.last_step(trial))


def _failed(view: StudyView, trained: StudyView, compared: Sequence[Candidate]) -> dict[str, int]:
    """Return how many trainings of each configuration failed for good, which is told on stderr."""
    failures: dict[str, list[Trial]] = {}
    for trial in trained.state.failed_for_good():
        failures.setdefault(_key(trained, trial), []).append(trial)
    for candidate in compared:
        kinds = Counter(trial.failure for trial in failures.get(candidate.key, ()))
        for kind, count in kinds.items():
            say(
                f"trial {candidate.trial.number} of {view.name}: {count} of "
                f"its trainings failed ({kind}); it is compared on the seeds it has"
            )
    return {name: len(trials) for name, trials in failures.items()}


def _key(view: StudyView, trial: Trial) -> str:
    return key(view.study.space.decode(trial.params))


NUM_SAMPLES: Final = 1000  # times that the common starts are drawn again


def meet(
    paths: Mapping[str, Path], matches: Matches, num_games: int, device: torch.device
) -> tuple[list[float], Floats]:
    """Let K players, checkpoints by name, and the panel play by the rules of ``matches``.

    Returns how strong each player is, as in the matches of a population, and the same (R, K) from
    starts that are drawn again.
    """
    learned: dict[str, dict[str, SavedPlayer]] = {role: {} for role in ROLES}
    for name, path in paths.items():
        for role in saved_roles(path):
            learned[role][name] = load_player(path, role, device)
    game = common_game(
        (name, player.config) for side in learned.values() for name, player in side.items()
    )
    assert game is not None, "a trial with a checkpoint has a game"
    hosts, agents = (Players(learned[r], scripted_players(r, matches.panel)) for r in ROLES)
    played = play_everybody(
        hosts,
        agents,
        game,
        num_games=num_games,
        max_steps=matches.max_steps,
        split=SPLIT,
        sampled=False,
        device=device,
    )
    rho = played.rho()
    places = [Places(_place(played.hosts, name), _place(played.agents, name)) for name in paths]
    weights = opponent_weights(rho, matches.weighing)
    samples = resampled_rho(played.moves, NUM_SAMPLES, np.random.default_rng(0))
    values: list[float] = strengths(rho[None], places, weights).sum(axis=2)[0].tolist()
    return values, strengths(samples, places, weights).sum(axis=2)


def _place(names: Sequence[str], name: str) -> int | None:
    return names.index(name) if name in names else None


def last_checkpoints(view: StudyView, trials: Iterable[int]) -> dict[int, Path]:
    """Return the trials whose last checkpoint is whole, with it; name the others on stderr."""
    checkpoints = {}
    for number in trials:
        path = _last_checkpoint(view, view.state.trials[number])
        if checkpoint.is_whole(path):
            checkpoints[number] = path
        else:
            say(f"{view.name}/{number} has no whole checkpoint")
    return checkpoints


def playing_device(view: StudyView) -> torch.device:
    return device_of(str(next(iter(view.study.bases.values()))["device"]))


def rerun_last_match(
    view: StudyView, options: PopulationOptions, top: int, num_games: int
) -> Confirmation:
    """Let the ``top`` of the last match, as many champions, and the panel meet again."""
    name, number, best = view.name, last_match(view), view.best()
    if number is None or best is None:
        raise HpsearchError(
            f"no match of {name} has been judged yet; look at it with: hpsearch status {name}"
        )
    population = view.state.population
    champions = population.archive[-top:][::-1]
    met = dict.fromkeys([*strongest_members(view)[:top], *champions])
    paths = last_checkpoints(view, met)
    if not paths:
        raise HpsearchError(
            f"the checkpoints of the strongest of {name} are gone or damaged, so no trial can "
            "play; run the study again under another name"
        )
    players = {str(trial): path for trial, path in paths.items()}
    values, samples = meet(players, options.matches, num_games, playing_device(view))
    believed: dict[int, float] = {}  # strengths in the last match that each played as a member
    for match in population.matches.values():
        believed |= match.strengths
    trials = [
        ConfirmedTrial(trial, {"value": believed.get(trial), "low": None, "high": None}, *verdict)
        for trial, verdict in zip(paths, confirmation.judge_draws(values, samples), strict=True)
    ]
    return Confirmation(
        study=name,
        trained_by=None,
        metric="strength",
        goal="maximize",
        games=num_games,
        top=top,
        match=number,
        favourite=best.number,
        trials=confirmation.ranked(trials, "maximize"),
    )
