"""The strongest checkpoints of studies, founders made of them, and the players of a cross-play."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TypeVar

import torch

from hpsearch.analysis.examination import REFERENCES, STANDARD_GAME, find_checkpoint
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, UsageError, unknown_name
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.names import is_name
from hpsearch.population.crossplay import CrossPlay, Players, common_game, play_everybody
from hpsearch.study.derived import BredFounder
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.state import FINISHED, STOPPED
from hpsearch.study.view import StudyView, best_trial, open_view, started_studies
from hpsearch.terminal import say
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import is_maximized, saved_config
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
    A trial whose checkpoints are gone makes room for the next one. Raises HpsearchError if no trial
    has finished; UsageError if none that has finished has a checkpoint.
    """
    view.require_players()
    best_trial(view)  # says why where there is none
    finished = [trial for trial in view.state.told(COMPLETE) if trial.value is not None]
    chosen: dict[int, tuple[Path, tuple[str, ...]]] = {}
    newest = cache(partial(_newest_checkpoint, view))  # so that what a trial lacks is said once
    for role, metric in _metrics(view, finished).items():
        ranked = ((own.number, newest(own.number)) for own in _ranked(view, finished, metric))
        whole = ((trial, path) for trial, path in ranked if path is not None)
        for trial, path in islice(whole, count):
            _, roles = chosen.get(trial, (path, ()))
            chosen[trial] = path, (*roles, role)
    if not chosen:
        raise UsageError(
            f"the study {view.name} has no whole checkpoint of a trial that finished; "
            "run one of them again with: hpsearch train CONFIG, which is config.yaml in its folder "
            f"below {view.folder.trials}"
        )
    return [StrongCheckpoint(trial, path, roles) for trial, (path, roles) in chosen.items()]


def _metrics(view: StudyView, finished: Sequence[Trial]) -> dict[str, str]:
    measured = {name for trial in finished for name in trial.metrics}
    preferred = [view.metric, *(panel_name(MODES[0], role) for role in PANELS)]
    by_role: dict[str, str] = {}
    for name in [*(name for name in preferred if name in measured), *sorted(measured)]:
        by_role.setdefault(name.split("/")[1], name)
    return dict(sorted(by_role.items(), reverse=True))  # hosts first


def _ranked(view: StudyView, finished: Sequence[Trial], metric: str) -> list[Trial]:
    sign = -1.0 if is_maximized(metric) else 1.0
    measured = [trial for trial in finished if metric in trial.metrics]
    # Matches are numbered from 1, and the newest one in which a trial played comes first.
    places = {trial.number: (0, sign * trial.metrics[metric]["value"]) for trial in measured}
    for number, match in sorted(view.state.population.matches.items()):
        places |= {trial: (-number, -strength) for trial, strength in match.strengths.items()}
    return sorted(measured, key=lambda trial: places[trial.number])


def _newest_checkpoint(view: StudyView, trial: int) -> Path | None:
    path = checkpoint.newest(view.folder.trial(trial).checkpoints)
    if path is None:
        say(f"{view.name}/{trial} has no whole checkpoint")
    return path


T = TypeVar("T")


def choose_founders(views: Sequence[StudyView], members: int) -> list[BredFounder]:
    """Return at most ``members`` founders, of each study an even share, its best first."""
    for view in views:
        if view.state.status not in (FINISHED, STOPPED) or view.state.unfinished():
            raise ConflictError(
                f"{view.name} is {view.status}, so its best may be others yet; look at it with: "
                f"hpsearch status {view.name}, and breed when it has finished"
            )
    share, more = divmod(members, len(views))
    return _in_turn([_best(view, share + (index < more)) for index, view in enumerate(views)])


def _best(view: StudyView, count: int) -> list[BredFounder]:
    strongest = strongest_checkpoints(view, count)
    roles = dict.fromkeys(chain.from_iterable(strong.roles for strong in strongest))
    by_role = [[strong for strong in strongest if role in strong.roles] for role in roles]
    chosen = islice(dict.fromkeys(_in_turn(by_role)), count)
    name, paths = view.name, ((s.trial, s.checkpoint.absolute()) for s in chosen)
    return [BredFounder(name, trial, path, saved_config(path)) for trial, path in paths]


def _in_turn(lists: Sequence[Sequence[T]]) -> list[T]:
    return [rank for ranks in zip_longest(*lists) for rank in ranks if rank is not None]


@dataclass(frozen=True)
class RoundRobinPlayers:
    hosts: Players
    agents: Players
    checkpoints: dict[str, Path]  # of the learned ones, by their labels
    game: GameConfig  # that all of them know
    max_steps: int  # moves after which a game is unfinished, the most of any of them


def find_players(
    names: Sequence[str],
    runs: Path,
    *,
    top: int,
    panel: bool,
    device: torch.device,
    bundles: Mapping[Path, Mapping[str, SavedPlayer]] | None = None,
) -> RoundRobinPlayers:
    """Return the players that ``names`` stand for, the ``top`` trials of a study for each role.

    And those of ``bundles``, by folder and role. Raises UsageError if a name stands for nothing, or
    there are no hosts or no agents; ConflictError if the players know different games; CorruptError
    if a checkpoint is damaged.
    """
    roles_of: dict[Path, set[str]] = {}
    for name in names:
        if name not in {*HOSTS, *AGENTS}:
            for path, roles in _checkpoints(name, runs, top):
                roles_of.setdefault(path.resolve(), set()).update(roles)
    bundles = bundles or {}
    labels = _labels(roles_of, bundles)
    sides: list[Players] = []
    for role, known in (("host", HOSTS), ("agent", AGENTS)):
        panelists = REFERENCES[role] if panel else ()
        scripted = tuple(dict.fromkeys((*panelists, *(name for name in names if name in known))))
        playing = [path for path, roles in roles_of.items() if role in roles]
        learned = {labels[path]: load_player(path, role, device) for path in playing}
        learned |= {labels[path]: own[role] for path, own in bundles.items() if role in own}
        if not (learned or scripted):
            raise UsageError(
                f"no player plays as {role}: {', '.join(names)} can only play the other side; name "
                f"one that can, such as {REFERENCES[role][-1]}, or leave out --no-panel"
            )
        sides.append(Players(learned, scripted))
    hosts, agents = sides
    configs = [(name, player.config) for side in sides for name, player in side.learned.items()]
    game, max_steps = common_game(configs), STANDARD_GAME.max_steps
    if game is not None:
        max_steps = max(config.evaluation.max_steps for _, config in configs)
    checkpoints = {label: path for path, label in labels.items()}
    return RoundRobinPlayers(hosts, agents, checkpoints, game or STANDARD_GAME, max_steps)


def _checkpoints(name: str, runs: Path, top: int) -> Iterator[tuple[Path, tuple[str, ...]]]:
    """Yield the checkpoints that a name stands for, each with the roles that it plays."""
    path = Path(name)
    if path.suffix in (".yaml", ".yml") or (is_name(name) and _is_study(runs / name)):
        view = open_view(name, runs)
    elif _is_study(path):
        view = open_view(path.absolute().name, path.absolute().parent)
    elif path.is_dir():
        newest = find_checkpoint(path)
        yield newest, saved_roles(newest)
        return
    else:
        raise unknown_player(name, runs)
    for strong in strongest_checkpoints(view, top):
        yield strong.checkpoint, strong.roles


def unknown_player(name: str, runs: Path) -> UsageError:
    """Return the error of a name for which there is nothing that plays."""
    problem = unknown_name("player", name, {*HOSTS, *AGENTS, *started_studies(runs)})
    return UsageError(f"{problem}, or the folder of a run, a trial, a checkpoint or a bundle")


def _is_study(folder: Path) -> bool:
    return StudyDir(folder).spec.exists()


def _labels(checkpoints: Iterable[Path], bundles: Iterable[Path]) -> dict[Path, str]:
    """Name each checkpoint by its run (of a trial STUDY/NUMBER), its step, or else its path.

    A bundle is named by its folder, or else its path.
    """
    labels = {path: path.name for path in bundles}
    with_step = {path: str(path) for path in labels}
    for path in checkpoints:
        run = path.parent.parent
        is_trial = run.parent.name == "trials"
        labels[path] = f"{run.parent.parent.name}/{run.name}" if is_trial else run.name
        with_step[path] = f"{labels[path]}@{path.name.rpartition('-')[2].lstrip('0') or '0'}"
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


def play_round_robin(players: RoundRobinPlayers, how: HowToPlay) -> CrossPlay:
    return play_everybody(
        players.hosts,
        players.agents,
        players.game,
        num_games=how.num_games,
        max_steps=players.max_steps,
        split=f"cross-play {how.seed}",
        sampled=how.sampled,
        device=how.device,
    )
