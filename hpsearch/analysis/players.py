"""The strongest checkpoints of studies, founders made of them, and the players of a cross-play."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import Final, TypeVar

import torch

from hpsearch.analysis.examination import STANDARD_GAME, find_checkpoint
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, UsageError, unknown_name
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.names import is_name
from hpsearch.population.crossplay import CrossPlay, Players, common_game, play_everybody
from hpsearch.study.derived import BredFounder
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.state import FINISHED, STOPPED
from hpsearch.study.view import StudyView, best_trial, open_view
from hpsearch.terminal import say
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import is_maximized, saved_config
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.metrics import MODES, PANELS, panel_name
from hpsearch.trainers.opponents import SavedPlayer, load_player, saved_roles


@dataclass(frozen=True)
class StrongCheckpoint:
    trial: int
    checkpoint: Path
    roles: tuple[str, ...]  # in which the trial is one of the best


def strongest_checkpoints(view: StudyView, count: int) -> list[StrongCheckpoint]:
    """Return the newest checkpoints of the ``count`` best finished trials of each role.

    The role of the first objective is ranked by it, the other by its panel, or by what else was
    measured of it. Those of a population that were judged go before, by their strength in the
    newest match that they played; a later match before an earlier one, whose opponents were others.
    A trial whose checkpoints are gone makes room for the next one.

    Raises:
        HpsearchError: if no trial has finished.
        UsageError: if none that has finished has a checkpoint.
    """
    best_trial(view)  # says why where there is none
    chosen: dict[int, tuple[str, ...]] = {}
    paths: dict[int, Path] = {}
    for role, metric in _metrics(view).items():
        ranked = _with_checkpoint(view, _ranked(view, metric))
        for trial, path in islice(ranked, count):
            chosen[trial] = (*chosen.get(trial, ()), role)
            paths[trial] = path
    if not chosen:
        raise UsageError(
            f"the study {view.study.spec.name} has no whole checkpoint of a trial that finished; "
            "run one of them again with: hpsearch train CONFIG, which is config.yaml in its folder "
            f"below {view.folder.trials}"
        )
    return [StrongCheckpoint(trial, paths[trial], roles) for trial, roles in chosen.items()]


def _metrics(view: StudyView) -> dict[str, str]:
    """Return what each role is ranked by: the objective, its panel, or what else was measured."""
    measured = {name for trial in _finished(view) for name in trial.metrics}
    preferred = [view.study.spec.objectives[0].metric]
    preferred += [panel_name(MODES[0], role) for role in PANELS]
    by_role: dict[str, str] = {}
    for name in [*(name for name in preferred if name in measured), *sorted(measured)]:
        by_role.setdefault(_role(name), name)
    return dict(sorted(by_role.items(), reverse=True))  # hosts first


def _role(metric: str) -> str:
    return metric.split("/")[1]


def _finished(view: StudyView) -> list[Trial]:
    return [trial for trial in view.state.told(COMPLETE) if trial.value is not None]


def _ranked(view: StudyView, metric: str) -> list[Trial]:
    trials = [trial for trial in _finished(view) if metric in trial.metrics]
    sign, judged = -1.0 if is_maximized(metric) else 1.0, _judged(view)

    def place(trial: Trial) -> tuple[int, float]:
        if trial.number in judged:
            match, strength = judged[trial.number]
            return -match, -strength
        return 0, sign * trial.metrics[metric]["value"]  # matches are numbered from 1

    return sorted(trials, key=place)


def _judged(view: StudyView) -> dict[int, tuple[int, float]]:
    best: dict[int, tuple[int, float]] = {}
    for number, match in sorted(view.state.population.matches.items()):
        best |= {trial: (number, strength) for trial, strength in match.strengths.items()}
    return best


def _with_checkpoint(view: StudyView, trials: list[Trial]) -> Iterator[tuple[int, Path]]:
    for trial in trials:
        folder = view.folder.trial(trial.number).checkpoints
        path = checkpoint.newest(folder)
        if path is None:
            name = view.study.spec.name
            say(f"{name}/{trial.number} has no whole checkpoint")
            continue
        yield trial.number, path


T = TypeVar("T")


def choose_founders(views: Sequence[StudyView], members: int) -> list[BredFounder]:
    """Return at most ``members`` founders, of each study an even share, its best first.

    Raises:
        ConflictError: if a study has not finished.
        HpsearchError: if one of them has no checkpoint of a trial that finished.
    """
    for view in views:
        if view.state.status not in (FINISHED, STOPPED) or view.state.unfinished():
            name = view.study.spec.name
            raise ConflictError(
                f"{name} is {view.status}, so its best may be others yet; look at it with: "
                f"hpsearch status {name}, and breed when it has finished"
            )
    share, more = divmod(members, len(views))
    return _in_turn([_best(view, share + (index < more)) for index, view in enumerate(views)])


def _best(view: StudyView, count: int) -> list[BredFounder]:
    strongest = strongest_checkpoints(view, count)
    roles = dict.fromkeys(chain.from_iterable(strong.roles for strong in strongest))
    by_role = [[strong for strong in strongest if role in strong.roles] for role in roles]
    chosen = islice(dict.fromkeys(_in_turn(by_role)), count)
    name, paths = view.study.spec.name, ((s.trial, s.checkpoint.absolute()) for s in chosen)
    return [BredFounder(name, trial, path, saved_config(path)) for trial, path in paths]


def _in_turn(lists: Sequence[Sequence[T]]) -> list[T]:
    return [rank for ranks in zip_longest(*lists) for rank in ranks if rank is not None]


KNOWN: Final = {"host": tuple(HOSTS), "agent": tuple(AGENTS)}  # all scripted players, by role
PANEL: Final = {"host": PANELS["agent"], "agent": PANELS["host"]}
"""the scripted players of each role: those that the other role's panel is made of"""


@dataclass(frozen=True)
class PlayerSource:
    checkpoint: Path
    roles: tuple[str, ...]
    label: str  # the run, or the study and the trial


@dataclass(frozen=True)
class Side:
    learned: dict[str, SavedPlayer]
    scripted: tuple[str, ...]
    checkpoints: dict[str, Path]  # those that the learned ones were read from


@dataclass(frozen=True)
class RoundRobinPlayers:
    host: Side
    agent: Side
    game: GameConfig  # that all of them know
    max_steps: int
    """moves after which a game counts as unfinished, the most that any of them is measured by"""


def find_players(
    names: Sequence[str], runs: Path, *, top: int, panel: bool, device: torch.device
) -> RoundRobinPlayers:
    """Return the players that ``names`` stand for, the ``top`` trials of a study for each role.

    Raises:
        UsageError: if a name stands for nothing, or there are no hosts or no agents.
        ConflictError: if the players know different games.
        CorruptError: if a checkpoint is damaged.
    """
    others = [name for name in names if name not in {*HOSTS, *AGENTS}]
    sources = _merged(source for name in others for source in _sources(name, runs, top))
    labels = _labels(sources)
    sides: dict[str, Side] = {}
    for role, known in KNOWN.items():
        panelists = PANEL[role] if panel else ()
        scripted = tuple(dict.fromkeys((*panelists, *(name for name in names if name in known))))
        paths = {labels[s.checkpoint]: s.checkpoint for s in sources if role in s.roles}
        if not (paths or scripted):
            raise UsageError(
                f"no player plays as {role}: {', '.join(names)} can only play the other side; name "
                f"one that can, such as {PANEL[role][-1]}, or leave out --no-panel"
            )
        players = {name: load_player(path, role, device) for name, path in paths.items()}
        sides[role] = Side(players, scripted, paths)
    host, agent = sides["host"], sides["agent"]
    learned = [
        (name, player.config) for side in (host, agent) for name, player in side.learned.items()
    ]
    game, max_steps = common_game(learned), STANDARD_GAME.max_steps
    if game is not None:
        max_steps = max(config.evaluation.max_steps for _, config in learned)
    return RoundRobinPlayers(host, agent, game or STANDARD_GAME, max_steps)


def _sources(name: str, runs: Path, top: int) -> Iterator[PlayerSource]:
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or (is_name(name) and _is_study(runs / name)):
        yield from _of_study(name, runs, top)
    elif _is_study(path):
        yield from _of_study(path.absolute().name, path.absolute().parent, top)
    elif path.is_dir():
        checkpoint = find_checkpoint(path)
        yield PlayerSource(checkpoint, saved_roles(checkpoint), _label(checkpoint))
    else:
        studies = [folder.name for folder in runs.glob("*/") if _is_study(folder)]
        problem = unknown_name("player", name, {*HOSTS, *AGENTS, *studies})
        raise UsageError(f"{problem}, or the folder of a run, a trial or a checkpoint")


def _is_study(folder: Path) -> bool:
    return StudyDir(folder).spec.exists()


def _of_study(name: str, runs: Path, top: int) -> Iterator[PlayerSource]:
    for strong in strongest_checkpoints(open_view(name, runs), top):
        yield PlayerSource(strong.checkpoint, strong.roles, _label(strong.checkpoint))


def _merged(sources: Iterable[PlayerSource]) -> list[PlayerSource]:
    by_path: dict[Path, PlayerSource] = {}
    for source in sources:
        path = source.checkpoint.resolve()
        known = by_path.setdefault(path, replace(source, checkpoint=path, roles=()))
        roles = tuple(role for role in ROLES if role in (*known.roles, *source.roles))
        by_path[path] = replace(known, roles=roles)
    return list(by_path.values())


def _label(checkpoint: Path) -> str:
    """Return the name of the run that a checkpoint belongs to, STUDY/NUMBER for a trial."""
    run = checkpoint.resolve().parent.parent
    return f"{run.parent.parent.name}/{run.name}" if run.parent.name == "trials" else run.name


def _labels(sources: Sequence[PlayerSource]) -> dict[Path, str]:
    """Name each checkpoint: by its run, with its step where that is not enough, or by its path."""
    labels = {source.checkpoint: source.label for source in sources}
    with_step = {
        path: f"{label}@{path.name.rpartition('-')[2].lstrip('0') or '0'}"
        for path, label in labels.items()
    }
    for longer in (with_step, {path: str(path) for path in labels}):
        often = Counter([*labels.values(), *{*HOSTS, *AGENTS}])
        labels |= {path: longer[path] for path, label in labels.items() if often[label] > 1}
    return labels


@dataclass(frozen=True)
class HowToPlay:
    num_games: int  # of each pair, G
    seed: int  # of the starts, and of what is drawn
    sampled: bool  # whether learned players draw their moves, as often as in their own evaluations
    device: torch.device


def play_round_robin(entrants: RoundRobinPlayers, how: HowToPlay) -> CrossPlay:
    hosts, agents = (
        Players(side.learned, side.scripted) for side in (entrants.host, entrants.agent)
    )
    return play_everybody(
        hosts,
        agents,
        entrants.game,
        num_games=how.num_games,
        max_steps=entrants.max_steps,
        split=f"cross-play {how.seed}",
        sampled=how.sampled,
        device=how.device,
    )
