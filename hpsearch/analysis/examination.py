"""Everything that is measured of one player, each role for itself.

Who is evaluated: the players of a checkpoint, or a scripted player by its name.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypedDict

import torch

from hpsearch.errors import UsageError, unknown_name
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.rules import GameConfig
from hpsearch.population.best_response import Exploited, exploit
from hpsearch.terminal import say
from hpsearch.trainers import checkpoint
from hpsearch.trainers.evaluation import (
    Evaluation,
    Measurement,
    evaluate,
    scripted,
)
from hpsearch.trainers.match import PUBLISHED, MatchResult, play_match
from hpsearch.trainers.metrics import MODES, PANELS
from hpsearch.trainers.opponents import load_player, saved_roles
from hpsearch.trainers.policies import Policy, ScriptedPolicy
from hpsearch.trainers.published import RHOS, TRAINED
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.yardstick import Yardstick, check_size, measure

RANDOM_PLAYERS: Final = ("random", "random_pair")
"""scripted players that draw their moves"""
STANDARD_GAME: Final = GameConfig(
    dimension=3, max_num_points=20, max_value=20, max_steps=100, reposition=True, reward="terminal"
)
"""what scripted players, who know any game, are evaluated on"""


@dataclass(frozen=True)
class ExaminedPlayer:
    """A host, an agent, or one of each that learned together."""

    name: str
    checkpoint: Path | None
    """where it lies; None of a scripted player"""
    host: Policy | None
    agent: Policy | None
    game: GameConfig
    """the games that they know"""
    max_steps: int
    """moves after which a game counts as unfinished"""
    exploration: float
    """share of its moves that the sampled policy draws"""
    modes: tuple[str, ...]
    """greedy and sampled, or only greedy"""
    is_deterministic: bool
    """whether the greedy policy always answers alike"""


def find_player(name_or_path: Path, device: torch.device) -> ExaminedPlayer:
    """Return the scripted player of that name, or the learned ones of a checkpoint.

    Raises:
        UsageError: if there is neither.
        CorruptError: if the checkpoint is damaged.
    """
    name = str(name_or_path)
    if name in HOSTS or name in AGENTS:
        return _scripted(name)
    return _learned(find_checkpoint(name_or_path), device)


def _scripted(name: str) -> ExaminedPlayer:
    return ExaminedPlayer(
        name,
        checkpoint=None,
        host=ScriptedPolicy(name) if name in HOSTS else None,
        agent=ScriptedPolicy(name) if name in AGENTS else None,
        game=STANDARD_GAME,
        max_steps=STANDARD_GAME.max_steps,
        exploration=0.0,
        modes=MODES[:1],
        is_deterministic=name not in RANDOM_PLAYERS,
    )


def _learned(path: Path, device: torch.device) -> ExaminedPlayer:
    players = {role: load_player(path, role, device) for role in saved_roles(path)}
    host, agent = players.get("host"), players.get("agent")
    player = next(iter(players.values()))
    return ExaminedPlayer(
        f"{path.parent.parent.name} at step {player.step:,}",
        checkpoint=path,
        host=None if host is None else host.policy,
        agent=None if agent is None else agent.policy,
        game=game_config(player.config),
        max_steps=player.config.evaluation.max_steps,
        exploration=player.config.evaluation.er,
        modes=MODES,
        is_deterministic=True,
    )


def find_checkpoint(path: Path) -> Path:
    """Return the checkpoint at ``path``, or the newest whole one below it."""
    newest = checkpoint.newest(path)
    if newest is not None:
        for step in checkpoint.damaged_steps(newest.parent):
            damaged = checkpoint.path_of(newest.parent, step)
            if damaged != newest:
                say(f"{damaged} is damaged and left out")
        return newest
    if path.is_dir():
        raise UsageError(
            f"{path} holds no whole checkpoint; name a checkpoint, or the folder of a run or a "
            "trial, such as runs/NAME or runs/STUDY/trials/0"
        )
    names = {*HOSTS, *AGENTS}
    raise UsageError(f"no folder {path}; {unknown_name('scripted player', str(path), names)}")


CPU: Final = torch.device("cpu")
SPLIT: Final = "confirmation"
"""starts that neither training nor the search uses"""
REFERENCES: Final = {"host": PANELS["agent"], "agent": PANELS["host"]}
"""scripted players of the same role: those that the other role's panel is made of"""
MATCH_AGENTS: Final = ("choose_first", "random")
MATCH_HOSTS: Final = ("random_pair", "all_coord", "zeillinger")


@dataclass(frozen=True)
class ExaminationPlan:
    num_games: int
    """games an opponent and mode"""
    match_moves: int | None
    """moves of a match; None plays none"""
    response_steps: int | None
    """for which a best response to each role trains; None trains none"""


@dataclass(frozen=True)
class RoleReport:
    role: str
    evaluation: Evaluation
    references: dict[str, Evaluation]
    """scripted players of the role in the same games, by name; greedy only"""
    matches: dict[str, MatchResult] | str
    """by opponent; or why there are none"""
    yardstick: Yardstick | str
    """or why there is none"""
    exploitability: Exploited | None
    """None where no best response was asked for"""


@dataclass(frozen=True)
class PlayerReport:
    name: str
    num_games: int
    max_steps: int
    """moves after which a game for rho counts as unfinished"""
    match_moves: int | None
    """moves of a match"""
    roles: tuple[RoleReport, ...]
    pair: Evaluation | None
    """the host against the agent that learned with it, as rho/host/agent"""
    published: dict[str, float]
    """published rho of a trained host in such games, by agent"""


def examine(contestant: ExaminedPlayer, plan: ExaminationPlan) -> PlayerReport:
    return PlayerReport(
        contestant.name,
        plan.num_games,
        contestant.max_steps,
        plan.match_moves,
        tuple(_roles(contestant, plan)),
        _pair(contestant, plan),
        _published(contestant),
    )


def _roles(contestant: ExaminedPlayer, plan: ExaminationPlan) -> Iterator[RoleReport]:
    for role, policy in (("host", contestant.host), ("agent", contestant.agent)):
        if policy is not None:
            yield _role_report(role, policy, contestant, plan)


def _role_report(
    role: str, policy: Policy, contestant: ExaminedPlayer, plan: ExaminationPlan
) -> RoleReport:
    how, opponents = _measurement(contestant, plan), scripted(PANELS[role])
    greedy = replace(how, modes=MODES[:1])
    return RoleReport(
        role,
        evaluate(role, policy, opponents, 1, how)[0],
        {
            name: evaluate(role, ScriptedPolicy(name), opponents, 1, greedy)[0]
            for name in REFERENCES[role]
        },
        _matches(_pairs(role, policy), contestant, plan),
        _why_no_yardstick(contestant) or measure(role, policy, **_yardstick_game(contestant)),
        _exploited(role, contestant, plan),
    )


def _pairs(role: str, policy: Policy) -> dict[str, tuple[Policy, Policy]]:
    """Return the host and the agent of each match of a player."""
    if role == "host":
        return {name: (policy, ScriptedPolicy(name)) for name in MATCH_AGENTS}
    return {name: (ScriptedPolicy(name), policy) for name in MATCH_HOSTS}


def _exploited(role: str, contestant: ExaminedPlayer, plan: ExaminationPlan) -> Exploited | None:
    if plan.response_steps is None or contestant.checkpoint is None:
        return None
    return exploit(
        contestant.checkpoint,
        role,
        steps=plan.response_steps,
        num_games=plan.num_games,
        max_steps=contestant.max_steps,
        split=SPLIT,
        device=CPU,
    )


def _pair(contestant: ExaminedPlayer, plan: ExaminationPlan) -> Evaluation | None:
    """Measure a host against the agent that learned with it; scripted ones never met."""
    if contestant.host is None or contestant.agent is None or len(contestant.modes) == 1:
        return None
    how = _measurement(contestant, plan)
    return evaluate("host", contestant.host, {"agent": contestant.agent}, 1, how)[0]


def _measurement(contestant: ExaminedPlayer, plan: ExaminationPlan) -> Measurement:
    return Measurement(
        contestant.game,
        plan.num_games,
        contestant.max_steps,
        contestant.exploration,
        SPLIT,
        contestant.modes,
        CPU,
    )


def _matches(
    pairs: Mapping[str, tuple[Policy, Policy]],
    contestant: ExaminedPlayer,
    plan: ExaminationPlan,
) -> dict[str, MatchResult] | str:
    if plan.match_moves is None:
        return "none was asked for"
    game, published = contestant.game, PUBLISHED
    if game.dimension != published.dimension:
        return f"it is played in {published.dimension} dimensions, the player in {game.dimension}"
    if game.max_num_points < published.num_points:
        return (
            f"it begins with {published.num_points} points, the player knows at most "
            f"{game.max_num_points}"
        )
    rules = replace(
        published,
        num_moves=plan.match_moves,
        num_rows=game.max_num_points,
        reposition=game.reposition,
    )
    return {name: play_match(*pair, rules, seed=0, device=CPU) for name, pair in pairs.items()}


def _why_no_yardstick(contestant: ExaminedPlayer) -> str | None:
    if not contestant.is_deterministic:
        return "the player draws its moves, so it has no worst case"
    return check_size(contestant.game.dimension, contestant.game.max_num_points)


class _YardstickGame(TypedDict):
    num_rows: int
    reposition: bool
    device: torch.device


def _yardstick_game(contestant: ExaminedPlayer) -> _YardstickGame:
    game = contestant.game
    return {"num_rows": game.max_num_points, "reposition": game.reposition, "device": CPU}


def _published(contestant: ExaminedPlayer) -> dict[str, float]:
    """Return the published rho of a trained host in the contestant's games, where there is one."""
    game = contestant.game
    if (game.dimension, game.max_value, contestant.max_steps) != (3, 20, 100):
        return {}
    return {
        rho.agent: rho.value
        for rho in RHOS
        if rho.host == TRAINED and rho.num_points == game.max_num_points
    }
