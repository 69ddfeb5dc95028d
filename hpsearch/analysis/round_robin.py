"""The players of a cross-play: of studies, of checkpoints, and scripted ones, by name.

Cross-play of the entrants that a user named.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch

from hpsearch.analysis.examination import STANDARD_GAME, find_checkpoint
from hpsearch.analysis.players import strongest_checkpoints
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError, unknown_name
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.names import is_name
from hpsearch.population.crossplay import CrossPlay, Players, common_game, play_everybody
from hpsearch.study.view import open_view
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.metrics import PANELS
from hpsearch.trainers.opponents import SavedPlayer, load_player, saved_roles

KNOWN: Final = {"host": tuple(HOSTS), "agent": tuple(AGENTS)}
"""all scripted players, by role"""
PANEL: Final = {"host": PANELS["agent"], "agent": PANELS["host"]}
"""the scripted players of each role: those that the other role's panel is made of"""


@dataclass(frozen=True)
class PlayerSource:
    checkpoint: Path
    roles: tuple[str, ...]
    label: str
    """the run, or the study and the trial"""


@dataclass(frozen=True)
class Side:
    learned: dict[str, SavedPlayer]
    scripted: tuple[str, ...]
    checkpoints: dict[str, Path]
    """those that the learned ones were read from"""


@dataclass(frozen=True)
class RoundRobinPlayers:
    host: Side
    agent: Side
    game: GameConfig
    """that all of them know"""
    max_steps: int
    """moves after which a game counts as unfinished, the most that any of them is measured by"""


def find_players(
    names: Sequence[str], runs: Path, *, top: int, panel: bool, device: torch.device
) -> RoundRobinPlayers:
    """Return the players that ``names`` stand for.

    Args:
        names: studies, checkpoints, folders of runs and trials, and names of scripted players.
        runs: the folder of the studies.
        top: how many trials of a study play, of each role that learns.
        panel: whether the scripted panel plays on both sides too.
        device: where the networks will be.

    Raises:
        UsageError: if a name stands for nothing, or there are no hosts or no agents.
        ConflictError: if the players know different games.
        CorruptError: if a checkpoint is damaged.
    """
    scripted = [name for name in names if _is_scripted(name)]
    others = [name for name in names if not _is_scripted(name)]
    sources = _merged(source for name in others for source in _sources(name, runs, top))
    labels = _labels(sources)
    playing, named = {}, {}
    for role, known in KNOWN.items():
        panelists = PANEL[role] if panel else ()
        named[role] = tuple(dict.fromkeys((*panelists, *(n for n in scripted if n in known))))
        playing[role] = {
            labels[source.checkpoint]: source.checkpoint
            for source in sources
            if role in source.roles
        }
        if not (playing[role] or named[role]):
            raise UsageError(
                f"no player plays as {role}: {', '.join(names)} can only play the other side; name "
                f"one that can, such as {PANEL[role][-1]}, or leave out --no-panel"
            )
    host, agent = (_side(role, playing[role], named[role], device) for role in ROLES)
    game, max_steps = _common_game([host.learned, agent.learned])
    return RoundRobinPlayers(host, agent, game, max_steps)


def _side(
    role: str, checkpoints: dict[str, Path], scripted: tuple[str, ...], device: torch.device
) -> Side:
    learned = {name: load_player(path, role, device) for name, path in checkpoints.items()}
    return Side(learned, scripted, checkpoints)


def _is_scripted(name: str) -> bool:
    return name in HOSTS or name in AGENTS


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
    view = open_view(name, runs)
    for strongest in strongest_checkpoints(view, top):
        label = f"{view.study.spec.name}/{strongest.trial}"
        yield PlayerSource(strongest.checkpoint, strongest.roles, label)


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
    with_step = {path: f"{label}@{_step(path)}" for path, label in labels.items()}
    for longer in (with_step, {path: str(path) for path in labels}):
        often = Counter([*labels.values(), *{*HOSTS, *AGENTS}])
        labels |= {path: longer[path] for path, label in labels.items() if often[label] > 1}
    return labels


def _step(checkpoint: Path) -> str:
    return checkpoint.name.rpartition("-")[2].lstrip("0") or "0"


def _common_game(sides: Iterable[Mapping[str, SavedPlayer]]) -> tuple[GameConfig, int]:
    """Return the game that all know, and the cap; scripted players know any game."""
    players = [(name, player.config) for side in sides for name, player in side.items()]
    game = common_game(players)
    if game is None:
        return STANDARD_GAME, STANDARD_GAME.max_steps
    return game, max(config.evaluation.max_steps for _, config in players)


@dataclass(frozen=True)
class HowToPlay:
    num_games: int
    """of each pair, G"""
    seed: int
    """of the starts, and of what is drawn"""
    sampled: bool
    """whether learned players draw their moves, as often as in their own evaluations"""
    device: torch.device


def play_round_robin(entrants: RoundRobinPlayers, how: HowToPlay) -> CrossPlay:
    """Let every host play every agent, from the same starts in every cell."""
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
